//go:build unix

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func TestMain(m *testing.M) { planttest.Main(m) }

// The program is replaced under load by another version, and then by the first version.
// EUSN_OLDER is the path of the other version: make upgrade builds it from the history.
// Without EUSN_OLDER, the current program replaces itself, so that stops, replacements
// and kills are checked, but not the formats of two versions. Each sequence is predicted
// once, with the bits of an evaluation of the sent samples.

// One process with an embedded server: another program is started in its directory.
func TestUpgradeInPlace(t *testing.T) {
	u := newUpgrade(t)
	run := []string{"run", "-c", u.conf, "--model", u.Model, "--dir", filepath.Join(u.Dir, "data"), "--port", u.Port, "--partitions", fmt.Sprint(planttest.Partitions)}
	c := u.run(u.older, run)
	u.Connect()
	u.startFeed()
	for i, next := range []string{"", u.older, "", u.older, ""} {
		u.awaitProgress()
		u.endWorker(c, i == 2) // once by a crash of the newer program, whose data the older must read
		c = u.run(next, run)
	}
	u.awaitProgress()
	u.checkPredictions()
	u.endWorker(c, false)
}

// Workers with a separate server: one after another is replaced, and back; with another
// version three times, and forth once more.
func TestUpgradeRolling(t *testing.T) {
	u := newUpgrade(t)
	run := []string{"run", "-c", u.conf, "--model", u.Model, "--nats-url", u.URL, "--partitions", fmt.Sprint(planttest.Partitions)}
	u.StartServer()
	var workers []*child
	rounds, n := []string{"", u.older}, 2
	if u.older != "" {
		rounds, n = append(rounds, ""), 3
	}
	for range n {
		workers = append(workers, u.run(u.older, run))
	}
	u.startFeed()
	for round, next := range rounds {
		for i, w := range workers {
			u.awaitProgress()
			u.endWorker(w, (round+i)%3 == 1)
			workers[i] = u.run(next, run)
		}
	}
	u.awaitProgress()
	u.checkPredictions()
	for _, w := range workers {
		u.endWorker(w, false)
	}
}

// upgrade is a job whose program is replaced, and the samples sent meanwhile.
type upgrade struct {
	*planttest.Plant
	older, conf string
	client      *client.Client
	sent        atomic.Int64 // complete sequences of each stream passed to the client
	stop, over  chan struct{}
}

const upgradeStreams = 20

func newUpgrade(t *testing.T) *upgrade {
	t.Helper()
	u := &upgrade{Plant: planttest.NewIdle(t, ""), older: os.Getenv("EUSN_OLDER"), stop: make(chan struct{}), over: make(chan struct{})}
	u.conf = clitest.Write(t, filepath.Join(u.Dir, "stage.yaml"), "stage:\n  lease: 2s\n  snapshot_every: 2s\n")
	if u.older == "" {
		t.Log("NOT CHECKED: another version of the program: EUSN_OLDER does not name one (make upgrade)")
		return u
	}
	u.Model = filepath.Join(u.Dir, "of the other") // the model of a user of the other program
	for _, args := range [][]string{
		{"import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", u.Model + ".archive"},
		{"train", u.Model + ".archive", "--output", u.Model, "--members", "1", "--units", "5", "--policy", "count", "--length", fmt.Sprint(planttest.Length)},
	} {
		if out, err := osexec.Command(u.older, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", u.older, args, err, out)
		}
	}
	return u
}

// run starts a program: the current one if path is empty.
func (u *upgrade) run(path string, args []string) *child {
	u.T.Helper()
	if path == "" {
		return startChild(u.T, "", "reading sensors.*", args...)
	}
	return awaitChild(u.T, osexec.Command(path, args...), "reading sensors.*")
}

// endWorker ends a worker: cleanly, or by a kill.
func (u *upgrade) endWorker(c *child, crash bool) {
	u.T.Helper()
	signal := syscall.SIGTERM
	if crash {
		signal = syscall.SIGKILL
	}
	if err := c.Process.Signal(signal); err != nil {
		u.T.Fatal(err)
	}
	if err := c.Wait(); err != nil && !crash {
		u.T.Errorf("a worker that was asked to end: %v\n%s", err, c.hasPrinted())
	}
}

// startFeed sends sequences of all streams, in pieces, until the test ends.
func (u *upgrade) startFeed() {
	u.T.Helper()
	var err error
	u.client, err = client.Connect(u.T.Context(), client.Options{URL: u.URL, Channels: []string{"c0", "c1"}, Rows: planttest.Length / 2, Latency: 5 * time.Millisecond})
	if err != nil {
		u.T.Fatal(err)
	}
	go func() {
		defer close(u.over)
		for q := 0; ; q++ {
			select {
			case <-u.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			for piece := range 2 { // so that most states are inside a sequence at the end of a worker
				for s := range upgradeStreams {
					x, times := upgradeSamples(s, q)
					from, to := piece*planttest.Length/2, (piece+1)*planttest.Length/2
					if err := u.client.Publish(u.T.Context(), client.Samples{Stream: fmt.Sprint("m", s), X: x[2*from : 2*to], Times: times[from:to]}); err != nil {
						u.T.Error(err)
						return
					}
				}
			}
			u.sent.Add(1)
		}
	}()
}

// upgradeSamples returns the samples of sequence q of a stream, and their times.
func upgradeSamples(stream, q int) (x []float32, times []int64) {
	for i := range planttest.Length {
		at := q*planttest.Length + i
		phase := float64(at) * (.2 + .05*float64(stream))
		x = append(x, float32(math.Sin(phase)), float32(math.Cos(1.3*phase)))
		times = append(times, 1_700_000_000_000_000_000+int64(at)*1_000_000)
	}
	return x, times
}

// awaitProgress returns when the job has predicted some more sequences.
func (u *upgrade) awaitProgress() {
	u.T.Helper()
	before := u.CountPredictions("eusn")
	u.Await("predictions under load", func() bool { return u.CountPredictions("eusn") >= before+2*upgradeStreams })
}

// checkPredictions ends the load, waits for the last prediction and compares all
// predictions with an evaluation.
func (u *upgrade) checkPredictions() {
	t := u.T
	t.Helper()
	close(u.stop)
	<-u.over
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	if err := u.client.Close(ctx); err != nil {
		t.Fatal(err)
	}
	each := int(u.sent.Load())
	u.Await("all predictions", func() bool { return u.CountPredictions("eusn") >= each*upgradeStreams })

	m, err := reservoir.Load(u.Model)
	if err != nil {
		t.Fatal(err)
	}
	d := &archive.Dataset{Name: "sent", Channels: m.Channels, Classes: m.Readouts[0].Classes}
	for s := range upgradeStreams {
		one := archive.Series{ID: fmt.Sprint("m", s), Split: archive.Test, Label: -1}
		for q := range each {
			x, _ := upgradeSamples(s, q)
			one.Values = append(one.Values, x...)
		}
		d.Series = append(d.Series, one)
	}
	ev, err := offline.Evaluate(t.Context(), m, d, offline.EvaluateOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string][]string{}, map[string][]string{}
	for _, w := range ev.Predictions {
		want[w.ID] = append(want[w.ID], pipelinetest.PredictionText(int32(w.Class), 0, w.Scores, w.Probability))
	}
	err = consumer.Read(t.Context(), u.JS, "eusn", consumer.Span{From: 1, Stored: true}, func(out consumer.Output) error {
		for _, p := range out.Predictions {
			got[p.Stream] = append(got[p.Stream], pipelinetest.PredictionText(p.Class, p.Flags, p.Scores, p.Probability))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for s := range upgradeStreams {
		id := fmt.Sprint("m", s)
		if !slices.Equal(got[id], want[id]) {
			t.Errorf("stream %s: %d predictions, want %d; the first that differs is number %d", id, len(got[id]), len(want[id]), describeDifference(got[id], want[id]))
		}
	}
	t.Logf("%d predictions of %d streams, each once and as evaluated; the other program is %q", each*upgradeStreams, upgradeStreams, strings.TrimPrefix(u.older, u.Dir))
}

func describeDifference(a, b []string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
