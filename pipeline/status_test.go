package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// gate is an engine that waits before each computation.
type gate struct {
	reservoir.Engine
	open <-chan struct{}
}

func (g *gate) Advance(x []float32, runs []reservoir.Run, scores []float32) error {
	if len(runs) > 0 {
		<-g.open
	}
	return g.Engine.Advance(x, runs, scores)
}

// Messages waiting in the stage count as lag, after any idle time.
func TestLagAfterIdleTime(t *testing.T) {
	b := newRig(t)
	open := make(chan struct{})
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Partitions: 1, Lease: 200 * time.Millisecond}
	r := b.startWith(m, c, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := pipelinetest.Generic(net, slots)
		return &gate{e, open}, err
	})
	batches := r.counters.Stats().Batches
	r.waitUntil(t, "20 orders in an idle stage", func(s pipeline.Stats) bool { return s.Batches > batches+20 })
	const n = 30
	for i := range n {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.Rows("s", uint64(i+1), i == n-1, 1, 2)})
	}
	r.waitUntil(t, "30 messages that wait", func(s pipeline.Stats) bool { return s.Lag == n })
	if h := r.counters.Status().Partitions; len(h) != 1 || h[0].Lag != n || !h[0].Unsaved.IsZero() {
		t.Errorf("partitions %+v, want one with a lag of %d and nothing unsaved", h, n)
	}
	close(open)
	s := b.settleMessages(r, n)
	if s.PredictionsBy[outcome.IntegrityComplete] != 1 || s.Predictions != 1 {
		t.Errorf("%d predictions, by integrity %v, want one that is complete", s.Predictions, s.PredictionsBy)
	}
	r.stopStage(t)
	if s := r.counters.Stats(); s.Lag != 0 {
		t.Errorf("lag %d of a stage that has ended", s.Lag)
	}
}

// A stage at work on the whole share is ready; a starting, stopping or disconnected
// stage is not, and reports the reason.
func TestStatus(t *testing.T) {
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	b := rigOf(t, srv)
	b.url = srv.URL()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Partitions: 3, Shards: 2, MaxSlots: 100, MaxStreams: 50, SnapshotEvery: 50 * time.Millisecond, Lease: time.Second, StopTimeout: time.Second}

	unready := func(counters *pipeline.Counters) string {
		s := counters.Status()
		return strings.Join(s.Unready(), "; ")
	}
	if why := unready(new(pipeline.Counters)); why != "the stage is starting, or has ended" {
		t.Errorf("before a start: %q", why)
	}
	r := b.startStage(m, c)
	waitFor(t, "readiness", func() bool { return unready(&r.counters) == "" })
	s := r.counters.Status()
	sum, _ := m.Fingerprint()
	if !s.Connected || s.Worker == "" || !slices.Equal(s.Engines, []string{"generic"}) || s.Arithmetic != reservoir.Canonical || s.Model != sum || s.MaxRows != 200 || s.MaxStreams != 50 {
		t.Errorf("status %+v", s)
	}
	for p, h := range s.Partitions {
		if h.Partition != p || h.Phase != pipeline.Reading || h.Epoch != 1 || h.Lag != 0 || !h.Unsaved.IsZero() {
			t.Errorf("partition %d: %+v", p, h)
		}
	}
	if len(s.Partitions) != 3 {
		t.Errorf("%d partitions, want 3", len(s.Partitions))
	}

	begin := time.Now()
	b.publishPackets([]pipelinetest.Packet{pipelinetest.Rows("s", 1, false, 1, 2)})
	unsaved := func() (at time.Time) {
		for _, h := range r.counters.Status().Partitions {
			if !h.Unsaved.IsZero() {
				at = h.Unsaved
			}
		}
		return at
	}
	waitFor(t, "a message no snapshot holds", func() bool { return !unsaved().IsZero() })
	if at := unsaved(); !at.IsZero() && (at.Before(begin) || at.After(time.Now())) {
		t.Errorf("unsaved since %v, published after %v", at, begin)
	}
	waitFor(t, "a snapshot that holds it", func() bool { return unsaved().IsZero() })

	srv.Close()
	waitFor(t, "the loss of the server", func() bool {
		return strings.Contains(unready(&r.counters), "a connection to the NATS server is down")
	})
	waitFor(t, "the end of the lease", func() bool {
		return strings.Contains(unready(&r.counters), "lease was last renewed")
	})
	r.cancel()
	waitFor(t, "the stop", func() bool { return unready(&r.counters) == "the stage is stopping" })
	_ = r.waitForEnd(t) // without a server it cannot release
	if why := unready(&r.counters); why != "the stage is starting, or has ended" {
		t.Errorf("after the end: %q", why)
	}
}

// A partition is ready after its replay, not before.
func TestReplayingIsNotReady(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Partitions: 1, SnapshotEvery: time.Hour}
	r := b.startStage(m, c)
	const n = 5
	for i := range n {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.Rows("s", uint64(i+1), true, 1, 2)})
	}
	b.settleMessages(r, n)
	r.crashStage(t)

	open := make(chan struct{})
	r = b.launchStage(m, c, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := pipelinetest.Generic(net, slots)
		return &gate{e, open}, err
	})
	for range 50 {
		if s := r.counters.Status(); strings.Join(s.Unready(), "; ") != "partition 0: replaying" {
			t.Fatalf("unready %q, want it to be replaying", s.Unready())
		}
		time.Sleep(time.Millisecond)
	}
	close(open)
	waitFor(t, "readiness", func() bool { s := r.counters.Status(); return s.Unready() == nil })
	h := r.counters.Status().Partitions[0]
	if h.Phase != pipeline.Reading || h.Epoch != 2 || !h.Unsaved.IsZero() {
		t.Errorf("%+v, want epoch 2, reading, and nothing new that is unsaved", h)
	}
	if s := r.counters.Stats(); s.Replayed != n || s.Messages != 0 || s.Predictions != 0 {
		t.Errorf("%d replayed, %d messages, %d predictions, want %d, 0, 0", s.Replayed, s.Messages, s.Predictions, n)
	}
	r.stopStage(t)
}

// Counting allocates nothing, and every combination of flags has its word and counts
// for each of its flags.
func TestCountingAllocates(t *testing.T) {
	var c pipeline.Counters
	preds := make([]codec.Prediction, 1<<len(outcome.FlagNames))
	for i := range preds {
		preds[i].Flags = outcome.Flag(i)
	}
	if n := testing.AllocsPerRun(100, func() {
		c.Counts().CountGrades(preds)
		c.Counts().StepTime.AddValue(stats.StepBounds, 12345)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	var once pipeline.Counters
	once.Counts().CountGrades(preds)
	want := map[string]uint64{}
	for _, p := range preds {
		want[p.Flags.Integrity()]++
	}
	delete(want, outcome.IntegrityUnknown)
	stats := once.Stats()
	for word, n := range stats.PredictionsBy {
		if n != want[word] || n == 0 && word != outcome.IntegrityUnknown {
			t.Errorf("%d predictions %s, want %d", n, word, want[word])
		}
	}
	for _, name := range outcome.FlagNames {
		if n := stats.FlaggedBy[name]; int(n) != len(preds)/2 {
			t.Errorf("%d predictions with flag %s, want %d", n, name, len(preds)/2)
		}
	}
}

// breaking is an engine that waits, and then fails on command.
type breaking struct {
	reservoir.Engine
	busy chan<- struct{}
	open <-chan error
}

func (e *breaking) Advance(x []float32, runs []reservoir.Run, scores []float32) error {
	if len(runs) > 0 {
		e.busy <- struct{}{}
		if err := <-e.open; err != nil {
			return err
		}
	}
	return e.Engine.Advance(x, runs, scores)
}

// A stage with a failed engine is not ready, even before the end of other shards.
func TestFailureIsNotReady(t *testing.T) {
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	busy := make(chan struct{}, 10)
	open := []chan error{make(chan error, 10), make(chan error, 10)}
	shard := 0
	r := b.launchStage(m, pipeline.Config{Partitions: 2, Shards: 2}, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := pipelinetest.Generic(net, slots)
		shard++
		return &breaking{e, busy, open[shard-1]}, err
	})
	for i := range 20 { // some for either shard
		b.publishPackets([]pipelinetest.Packet{pipelinetest.Rows(fmt.Sprint("s", i), 1, false, 1, 2)})
	}
	<-busy
	<-busy
	lost := errors.New("lost")
	open[0] <- lost
	waitFor(t, "the failure", func() bool {
		s := r.counters.Status()
		return slices.Equal(s.Unready(), []string{"the stage is stopping"})
	})
	open[1] <- lost
	if err := r.waitForEnd(t); !errors.Is(err, lost) {
		t.Errorf("the stage ended with %v", err)
	}
}

// Shard times may be read before the stage begins, as the live page does; the race
// detector checks it.
func TestShardTimesFromBeginning(t *testing.T) {
	b := newRig(t)
	var counters pipeline.Counters
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	s := &pipeline.Worker{
		Job: pipeline.Job{
			Config: quickConfig("times", 2), Model: pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), ModelName: "test-model",
			NewEngine: pipelinetest.Generic, Log: b.log, Dial: b.dialServer,
		},
		Counters: &counters, Ready: func() { close(ready) },
	}
	go func() { done <- s.Run(ctx) }()
	var ended error
	waitFor(t, "times of a stage that reads", func() bool {
		for range 1000 { // frequently, because only a read next to a write shows a race
			counters.Shards()
		}
		select {
		case <-ready:
			return true
		case ended = <-done:
			return true
		default:
			return false
		}
	})
	all := counters.Shards()
	for _, one := range all {
		if one.Engine == "" || one.Busy+one.Waiting+one.Idle <= 0 {
			t.Errorf("%+v", one)
		}
	}
	if len(all) == 0 {
		t.Errorf("no shard; the stage ended with %v", ended)
	}
	cancel()
	if ended == nil {
		ended = <-done
	}
	if ended != nil {
		t.Error(ended)
	}
}
