package pipeline_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A NATS stream that is deleted, recreated or shortened under a running stage ends the
// stage with the reason: its consumers would only wait.
func TestStreamsLostUnderStage(t *testing.T) {
	makeAnew := func(t *testing.T, b *rig, c pipeline.Config) {
		if err := b.js.DeleteStream(t.Context(), wire.InputStream(c.Job)); err != nil {
			t.Fatal(err)
		}
		if err := store.EnsureStreams(t.Context(), b.js, c.WithDefaults().Layout(), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One("s", 2, 2, 1, true)}) // the stage has already read a message with this number
	}
	for name, lose := range map[string]struct {
		how  func(t *testing.T, b *rig, r *running, c pipeline.Config)
		want string
	}{
		"input deleted": {func(t *testing.T, b *rig, _ *running, c pipeline.Config) {
			if err := b.js.DeleteStream(t.Context(), wire.InputStream(c.Job)); err != nil {
				t.Fatal(err)
			}
		}, "LOST-IN is gone: search the server's log"},
		"input created again": {func(t *testing.T, b *rig, _ *running, c pipeline.Config) { makeAnew(t, b, c) }, "LOST-IN was deleted and created again"},
		"output deleted": {func(t *testing.T, b *rig, _ *running, c pipeline.Config) {
			if err := b.js.DeleteStream(t.Context(), wire.OutputStream(c.Job)); err != nil {
				t.Fatal(err)
			}
			b.publishPackets([]pipelinetest.Packet{pipelinetest.One("s", 2, 2, 1, true)}) // the commit must not delay the end
		}, "LOST-OUT is gone"},
		"input cut short": {func(t *testing.T, b *rig, r *running, c pipeline.Config) {
			for _, tn := range r.counters.Owned() {
				at := tn.Input.Came.Load()
				tn.Input.Came.Store(wire.Place{Seq: at.Seq + 7, Stored: at.Stored}) // as if the server had lost seven messages
			}
		}, "the input lost its last messages"},
		"input put back from a backup": {func(t *testing.T, b *rig, r *running, c pipeline.Config) {
			for _, tn := range r.counters.Owned() {
				tn.Input.Came.Stored.Add(1) // as if another message had been read there
			}
			r.counters.Counts().Resets.Add(1) // as when the server was away
		}, "the input has other messages than before (a restored backup? a power failure?)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			c := pipeline.Config{Job: "lost", Partitions: 1, Lease: 300 * time.Millisecond, StopTimeout: 30 * time.Second}
			r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
			b.publishPackets([]pipelinetest.Packet{pipelinetest.One("s", 1, 2, 1, true)})
			b.settleMessages(r, 1)
			lose.how(t, b, r, c)
			mentions(t, r.waitForEnd(t), lose.want, "none of this worker's partitions can continue")
		})
	}
}

// The server acknowledges messages under the keys "*" and ">" and assigns them to no
// partition. The log reports it, repeatedly only if their number grows.
func TestKeysThatAreWildcards(t *testing.T) {
	t.Parallel()
	b, book := newLoggedRig(t)
	c := pipeline.Config{Job: "wild", Partitions: 2, Lease: 300 * time.Millisecond}
	r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("*", 0, 2, 1, true), pipelinetest.One(">", 0, 2, 1, true), pipelinetest.One("a*b", 0, 2, 1, true)})
	b.settleMessages(r, 1)
	const told = "belong to no partition"
	r.waitUntil(t, "both told", func(pipeline.Stats) bool { return book.Lines("messages=2") > 0 })
	before := book.Lines(told)
	time.Sleep(3 * c.Lease)
	r.stopStage(t)
	if after := book.Lines(told); after != before {
		t.Errorf("told %d times, then %d: want no more while there are no more", before, after)
	}
	if got := len(b.readPredictions(c.Job)["a*b"]); got != 1 {
		t.Errorf("%d predictions of a*b, want 1", got)
	}
}

// A consumer can live and deliver nothing: a user has paused the consumer, or the
// replica lags permanently. The heartbeats continue, so the client keeps the consumer.
// The partition is reclaimed, with another consumer; after a fault of a common
// consumer, no partition uses it.
func TestConsumerThatDeliversNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: takes longer than the time after which a consumer is given up")
	}
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			b, book := newLoggedRig(t)
			c := pipeline.Config{Job: "quiet", Partitions: partitions, Lease: 300 * time.Millisecond}
			r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
			b.publishPackets([]pipelinetest.Packet{pipelinetest.One("s", 1, 2, 1, true)})
			b.settleMessages(r, 1)
			if partitions > 1 {
				r.waitForReads(t, partitions)
			}
			in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
			if err != nil {
				t.Fatal(err)
			}
			paused := 0
			for cons := range in.ListConsumers(t.Context()).Info() {
				if _, err := b.js.PauseConsumer(t.Context(), wire.InputStream(c.Job), cons.Name, time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				paused++
			}
			if paused != 1 {
				t.Fatalf("%d consumers on the input, want one", paused)
			}
			b.publishPackets([]pipelinetest.Packet{pipelinetest.One("s", 2, 2, 2, true)})
			// Not settled: the new claim takes the first message into account once more.
			r.waitUntil(t, "both predictions", func(s pipeline.Stats) bool { return s.Predictions >= 2 })
			r.stopStage(t)
			if got := len(b.readPredictions(c.Job)["s"]); got != 2 {
				t.Errorf("%d predictions, want 2", got)
			}
			if book.Lines("delivers nothing") != 1 {
				t.Error("the log does not say why the partition was claimed again")
			}
		})
	}
}
