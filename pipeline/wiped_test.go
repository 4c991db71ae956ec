package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// wipeStreams deletes the messages of NATS streams while the server is stopped: with
// keep their configuration stays, as for a stream with one replica in a cluster, on a
// server with a lost disk.
func (p *past) wipeStreams(keep bool, names ...string) {
	p.t.Helper()
	for _, name := range names {
		dir := p.streamFolder(name)
		var err error
		if !keep {
			err = os.RemoveAll(dir)
		} else if _, err = os.Stat(dir); err == nil {
			err = errors.Join(os.RemoveAll(filepath.Join(dir, "msgs")), os.RemoveAll(filepath.Join(dir, "obs")), os.Mkdir(filepath.Join(dir, "msgs"), 0o700))
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// Any NATS stream of a young job may return empty, or be missing, under workers that
// continue or restart: producers without numbers get no wrong prediction without a
// flag, and no duplicate.
func TestWipedStreams(t *testing.T) {
	const job = "wiped"
	in, out, snap := wire.InputStream(job), wire.OutputStream(job), wire.SnapshotStream(job)
	beside := []string{wire.RowStream(job), wire.DeadLetterStream(job), wire.MemberStream(job), "OBJ_" + wire.ModelBucket(job)}
	sets := [][]string{{out}, {in}, {snap}, beside[:1], beside[1:2], beside[2:3], beside[3:], {in, out}, {out, snap}, {in, snap}, {in, out, snap}}
	for _, s := range [][]string{{out, snap}, {in, snap}, {in, out, snap}} {
		sets = append(sets, slices.Concat(s, beside))
	}
	for _, names := range sets {
		for _, kept := range []bool{true, false} {
			for _, lives := range []bool{true, false} {
				all := len(names) == 3+len(beside)
				if testing.Short() && !all && !slices.Equal(names, []string{out}) {
					continue
				}
				title := fmt.Sprintf("%s kept=%t lives=%t", strings.Join(names, ","), kept, lives)
				t.Run(title, func(t *testing.T) {
					t.Parallel()
					w := newWiped(t, job)
					stops := slices.Contains(names, in) || slices.Contains(names, out)
					w.runThrough(names, kept, lives, stops, all && !kept)
				})
			}
		}
	}
}

// wiped is a young job with an open sequence of each key.
type wiped struct {
	t    *testing.T
	p    *past
	b    *rig
	book *pipelinetest.LogBook
	m    *reservoir.Model
	c    pipeline.Config
	r    *running
	keys []string
	want map[string][]codec.Prediction
	told map[string][]codec.Prediction // before
}

func newWiped(t *testing.T, job string) *wiped {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	w := &wiped{
		t: t, p: newPast(t), m: m, keys: append(keysIn(0, 2, 2), keysIn(1, 2, 2)...), book: &pipelinetest.LogBook{},
		c: pipeline.Config{Job: job, Partitions: 2, Lease: 300 * time.Millisecond, StopTimeout: 300 * time.Millisecond}, want: map[string][]codec.Prediction{},
	}
	w.b = w.p.newRig()
	w.b.log = w.book.Logger()
	w.r = w.b.startStage(m, w.c)
	for i, key := range w.keys {
		w.want[key] = predictAlone(t, m, codec.Reject, slices.Concat(w.firstPackets(i), w.secondPackets(i))...)
		w.b.publishPackets(w.firstPackets(i))
	}
	w.b.settleMessages(w.r, 2*len(w.keys))
	w.told = w.b.awaitPredictions(job, len(w.keys))
	return w
}

// firstPackets ends a sequence of a key and begins another, second ends both sequences
// and a third sequence.
func (w *wiped) firstPackets(i int) []pipelinetest.Packet {
	return []pipelinetest.Packet{pipelinetest.One(w.keys[i], 0, 2, float32(i)/8, true), pipelinetest.One(w.keys[i], 0, 2, float32(i)/8+0.4, false)}
}

func (w *wiped) secondPackets(i int) []pipelinetest.Packet {
	return []pipelinetest.Packet{pipelinetest.One(w.keys[i], 0, 2, float32(i)/8-0.3, true), pipelinetest.One(w.keys[i], 0, 2, float32(i)/8-0.6, true)}
}

func (w *wiped) runThrough(names []string, kept, lives, stops, nothingLeft bool) {
	t := w.t
	if !lives {
		w.r.crashStage(t)
	}
	w.p.srv.Close()
	w.p.wipeStreams(kept, names...)
	w.p.startServer(w.p.port)
	w.b = w.p.newRig()
	w.b.log = w.book.Logger()
	if lives && stops {
		if err := w.r.waitForEnd(t); err == nil {
			t.Error("the worker that lived on ended without an error")
		}
	}
	if lives && nothingLeft {
		return // known only to this worker
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	next := &pipeline.Worker{Job: pipeline.Job{Config: w.c, Model: w.m, ModelName: "test-model", NewEngine: pipelinetest.Generic, Dial: w.b.dialServer, Log: w.b.log}}
	go func() { done <- next.Run(ctx) }()
	switch {
	case nothingLeft:
		waitFor(t, "a line", func() bool { return w.book.Lines("the job begins: the server holds no output of it") == 2 })
		cancel()
		<-done
		return
	case stops:
		select {
		case err := <-done:
			if slices.Contains(names, wire.OutputStream(w.c.Job)) && !errors.Is(err, store.ErrRecordLost) || err == nil {
				t.Errorf("the next worker ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the next worker runs")
		}
	}
	for i := range w.keys {
		for _, packet := range w.secondPackets(i) {
			msg := &nats.Msg{Subject: "sensors." + packet.Key, Header: packet.Headers(), Data: packet.Payload(t)}
			if _, err := w.b.js.PublishMsg(t.Context(), msg); err != nil && !stops {
				t.Fatal(err)
			}
		}
	}
	if !stops {
		w.b.awaitPredictions(w.c.Job, 3*len(w.keys))
	}
	cancel()
	if !stops {
		if err := <-done; err != nil {
			t.Errorf("the next worker ended with %v", err)
		}
		if lives {
			w.r.stopStage(t)
		}
	}
	w.compareOutput(slices.Contains(names, wire.OutputStream(w.c.Job)))
}

// compareOutput checks the current output; anew: the output was just empty.
func (w *wiped) compareOutput(anew bool) {
	if _, err := w.b.js.Stream(w.t.Context(), wire.OutputStream(w.c.Job)); errors.Is(err, jetstream.ErrStreamNotFound) {
		return
	}
	now := w.b.readPredictions(w.c.Job)
	for key, got := range now {
		if anew {
			got = slices.Concat(w.told[key], got)
		}
		if len(got) > len(w.want[key]) {
			w.t.Errorf("key %s: %d predictions, want at most %d", key, len(got), len(w.want[key]))
			continue
		}
		for i, p := range got {
			if p.Flags == 0 && !sameBits(p.Scores, w.want[key][i].Scores) {
				w.t.Errorf("key %s: prediction %d is wrong and has no flag", key, i)
			}
		}
	}
}
