package loop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
	"github.com/eusn-stream/eusn-stream/pipeline/producer"
)

// A program from before there were promotions works beside one of today. EUSN_OLDER
// is its path (make older builds it from the history). It keeps its partitions, which
// the job's first readout answers; it takes none that may have a promotion; after the
// first promotion it does not join. Each prediction has the scores of the readout that
// it names, and none is missing.
func TestOlderWorker(t *testing.T) {
	older := os.Getenv("EUSN_OLDER")
	if older == "" {
		t.Skip("NOT CHECKED: EUSN_OLDER does not name a program from before there were promotions: make older")
	}
	p := planttest.Idle(t, "")
	m := loadModel(t, p.Model)
	first := *m.Readouts[0]
	other := first
	other.Weights = slices.Clone(first.Weights)
	for i := range other.Weights {
		other.Weights[i] *= -1
	}
	m.Readouts[0] = &other
	second := filepath.Join(p.Dir, "second")
	if err := m.Save(second); err != nil {
		t.Fatal(err)
	}
	conf := clitest.Write(t, filepath.Join(p.Dir, "stage.yaml"), "stage:\n  lease: 2s\n")
	run := []string{"run", "-c", conf, "--model", p.Model, "--nats-url", p.URL, "--partitions", fmt.Sprint(loopPartitions)}
	p.StartServer()
	p.Program("new", run...)
	p.Await("the new worker", func() bool { return p.Says("new", "reading sensors.*") })
	p.Start("older", older, run...)
	p.Await("two workers with partitions", func() bool { return len(workers(p)) == 2 })
	o := &olderRun{Plant: p, x: map[string][]float32{}}
	o.send(0)

	print := strings.TrimSpace(clitest.Must(t, "model", "publish", second, "--nats-url", p.URL).Out)
	r := clitest.Exec(t, t.Context(), "model", "promote", print, "--nats-url", p.URL)
	r.Want(t, 0, "have not taken it yet")
	o.send(1)
	if used := o.check(print); len(used) != 2 {
		t.Errorf("beside the older worker, predictions by readout: %v, want some of two", used)
	}

	before := workers(p)
	p.Services["new"].Kill(true) // its partitions know of the promotion: the older worker must leave them alone
	p.Await("the older worker's refusal", func() bool { return p.Says("older", "a newer") })
	p.Services["new"].Release()
	p.Await("the new worker again", func() bool {
		for name := range workers(p) {
			if before[name] == 0 {
				return true
			}
		}
		return false
	})
	o.publish(2)

	// By the names of the two, which are drawn, some of what it refuses may fall to the
	// older worker: that waits until it ends.
	p.Services["older"].End()
	o.awaitAll()
	o.check(print)
	p.Await("the promotion in every partition", func() bool {
		all, err := pipeline.PromotionsOf(t.Context(), p.JS, "eusn")
		return err == nil && all.Complete()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, older, run...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() < 1 {
		t.Errorf("an older worker joins a job with promotions: %v\n%s", err, out)
	}
	t.Logf("it is refused:\n%s", out)
	o.send(3)
	o.check(print)
	if left := workers(p); len(left) != 1 {
		t.Errorf("%d workers have partitions", len(left))
	}
}

// olderRun is what was sent to the two.
type olderRun struct {
	*planttest.Plant
	x    map[string][]float32 // by stream
	sent int                  // sequences
}

// send publishes, and waits for the predictions.
func (o *olderRun) send(part int) {
	o.T.Helper()
	o.publish(part)
	o.awaitAll()
}

func (o *olderRun) awaitAll() {
	o.T.Helper()
	o.Await("all predictions", func() bool { return o.Made("eusn") >= o.sent })
}

// publish sends sequences of each stream.
func (o *olderRun) publish(part int) {
	t := o.T
	t.Helper()
	c, err := client.Connect(t.Context(), client.Options{URL: o.URL, Channels: []string{"c0", "c1"}, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	for q := 10 * part; q < 10*(part+1); q++ {
		for s := range 20 {
			it := loopItem(s, q)
			it = producer.Item{Stream: it.Stream, X: it.X[:2*planttest.Length], Times: it.Times[:planttest.Length]}
			o.x[it.Stream] = append(o.x[it.Stream], it.X...)
			o.sent++
			if err := c.Publish(t.Context(), it); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// check compares all predictions with those of the readouts that they name, and
// counts them by readout.
func (o *olderRun) check(second string) map[string]int {
	t := o.T
	t.Helper()
	want := map[string]map[string][]string{}
	for name, file := range map[string]string{"": o.Model, second: filepath.Join(o.Dir, "second")} {
		m := loadModel(t, file)
		d := &offline.Dataset{Name: "sent", Channels: m.Channels, Classes: m.Readouts[0].Classes}
		for stream, x := range o.x {
			d.Series = append(d.Series, offline.Series{ID: stream, Split: offline.Test, Label: -1, Values: x})
		}
		ev, err := offline.Evaluate(t.Context(), m, d, offline.EvaluateOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want[name] = map[string][]string{}
		for _, w := range ev.Predictions {
			want[name][w.ID] = append(want[name][w.ID], pipelinetest.PredictionText(int32(w.Class), 0, w.Scores, w.Probability))
		}
	}
	used, seen := map[string]int{}, map[string]int{}
	err := consumer.Read(t.Context(), o.JS, "eusn", consumer.Span{From: 1, Stored: true}, func(out consumer.Output) error {
		for _, p := range out.Predictions {
			name := p.Readout
			if name != second {
				name = ""
			}
			n := seen[p.Stream]
			seen[p.Stream]++
			used[name]++
			if by := want[name][p.Stream]; n >= len(by) || pipelinetest.PredictionText(p.Class, 0, p.Scores, p.Probability) != by[n] {
				t.Errorf("stream %s, prediction %d of readout %q: not the scores of that", p.Stream, n, p.Readout)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if used[""]+used[second] != o.sent {
		t.Errorf("%v predictions of %d sequences", used, o.sent)
	}
	return used
}

// workers are those that have partitions.
func workers(p *planttest.Plant) map[string]int {
	all := map[string]int{}
	now, err := pipeline.PromotionsOf(p.T.Context(), p.JS, "eusn")
	if err != nil {
		return nil
	}
	for _, part := range now.Partitions {
		all[part.Worker]++
	}
	return all
}
