package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// purgeTo removes a job's input up to a message, as age would.
func (b *rig) purgeTo(job string, seq uint64) {
	b.t.Helper()
	b.onStream(wire.InputStream(job), func(ctx context.Context, in jetstream.Stream) error {
		return in.Purge(ctx, jetstream.WithPurgeSequence(seq+1))
	})
}

// Input removed while no worker read: predictions that may lack samples are flagged,
// and a worker that continues after a kill before the next snapshot computes the same
// states and flags.
func TestLostInputIsFlagged(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "loss", Partitions: 1, Lease: 600 * time.Millisecond, StopTimeout: 300 * time.Millisecond}
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("n", 1, 2, 1, false), pipelinetest.One("a", 0, 2, 1, false), pipelinetest.One("b", 0, 2, 2, true)}) // a and n are in the middle of a sequence, n numbers its messages
	b.settleMessages(r, 3)
	r.stopStage(t)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 0, 2, 3, false), pipelinetest.One("c", 0, 2, 4, false)})
	b.purgeTo(c.Job, 5)
	r = b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 0, 2, 5, true), pipelinetest.One("a", 0, 2, 6, true)})
	b.awaitPredictions(c.Job, 3)
	if n := r.counters.Stats().Losses; n != 1 {
		t.Errorf("%d losses counted, want 1", n)
	}
	r.crashStage(t)
	b.expireMembers(c.Job)
	if _, rec := b.lastRecord(c.Job, 0); rec.Losses != "6" || rec.SnapSeq != 3 {
		t.Errorf("the record names losses before %q and a snapshot of %d, want 6 and 3", rec.Losses, rec.SnapSeq)
	}
	r = b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("b", 0, 2, 7, true), pipelinetest.One("b", 0, 2, 8, true), pipelinetest.One("c", 0, 2, 9, true), pipelinetest.One("c", 0, 2, 10, true), pipelinetest.One("n", 2, 2, 3, true)})
	got := b.awaitPredictions(c.Job, 8)
	r.stopStage(t)
	for key, want := range map[string][]string{"a": {"gap", "complete"}, "b": {"complete", "gap", "complete"}, "c": {"gap", "complete"}, "n": {"complete"}} {
		var words []string
		for _, p := range got[key] {
			words = append(words, p.Flags.Integrity())
		}
		if !slices.Equal(words, want) {
			t.Errorf("key %s: %v, want %v", key, words, want)
		}
	}
}

// A worker was killed after publishing some of a message's predictions, and that
// message was removed before the next owner came: its other predictions are lost; later
// messages are answered in full, and flagged.
func TestLostInputOfASplitCommit(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "halves", Partitions: 1, Lease: 600 * time.Millisecond, StopTimeout: 300 * time.Millisecond}
	b.answerPackets(m, c, endedSequences("s", 1, 1), 1)
	b.publishPackets(endedSequences("s", 1, 2))
	in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	second, err := in.GetMsg(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	_, rec := b.lastRecord(c.Job, 0)
	if rec.InSeq != 1 || rec.SnapSeq != 1 {
		t.Fatalf("the record has position %d and a snapshot of %d, want 1 and 1", rec.InSeq, rec.SnapSeq)
	}
	rec.Kind, rec.Position, rec.Rests = wire.KindCommit, wire.Position{InSeq: 1, Ahead: 2, Outs: 3}, wire.Place{Seq: 2, Stored: second.Time.UnixNano()}
	if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.OutputSubject(c.Job, 0), Header: rec.Header()}); err != nil {
		t.Fatal(err)
	}
	b.purgeTo(c.Job, 2)
	b.publishPackets(endedSequences("s", 3, 3))
	b.expireMembers(c.Job)
	r := b.startStage(m, c)
	r.waitUntil(t, "all of the input", func(s pipeline.Stats) bool { return s.Messages == 3 })
	r.stopStage(t)
	_, rec = b.lastRecord(c.Job, 0)
	if want := (wire.Position{InSeq: 5, Outs: 6}); rec.Position != want {
		t.Errorf("the record is at %+v, want %+v", rec.Position, want)
	}
	if n := r.counters.Stats().Losses; n != 1 {
		t.Errorf("%d losses counted, want 1", n)
	}
}

// Message numbers do not protect a sequence that silence ends.
func TestLostInputThenSilence(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "hush", Partitions: 1, Lease: 300 * time.Millisecond, StopTimeout: 300 * time.Millisecond}
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("n", 1, 2, 1, false)}, 1)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("n", 2, 2, 1, false)})
	b.purgeTo(c.Job, 2)
	c.Idle = time.Second
	r := b.startStage(m, c)
	got := b.awaitPredictions(c.Job, 1)["n"][0].Flags
	r.stopStage(t)
	if want := outcome.FlagIdle | outcome.FlagGap; got != want {
		t.Errorf("flags %v, want %v", got, want)
	}
}

// An input whose beginning was removed before a partition's first message: the same
// flags, also if the worker is killed before its first snapshot.
func TestInputWithoutBeginning(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "late", Partitions: 1, Lease: 600 * time.Millisecond, StopTimeout: 300 * time.Millisecond}
	b.startStage(m, c).stopStage(t)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 0, 2, 1, false), pipelinetest.One("a", 0, 2, 2, false)})
	b.purgeTo(c.Job, 1)
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 0, 2, 3, true)})
	b.awaitPredictions(c.Job, 1)
	r.crashStage(t)
	b.expireMembers(c.Job)
	r = b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 0, 2, 4, true)})
	got := b.awaitPredictions(c.Job, 2)["a"]
	r.stopStage(t)
	if got[0].Flags.Integrity() != "gap" || got[1].Flags.Integrity() != "complete" {
		t.Errorf("flags %v and %v, want gap and none", got[0].Flags, got[1].Flags)
	}
}

// Input removed under a running, lagging stage is detected with the next message.
func TestLostInputUnderStage(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "lag", Partitions: 64, Shards: 1, Lease: 300 * time.Millisecond, RowBudget: 1, MaxMessage: 64 << 10, StopTimeout: 300 * time.Millisecond}
	gate := make(chan struct{})
	closed := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := pipelinetest.Generic(net, slots)
		return &gated{e, gate}, err
	}
	r := b.startWith(m, c, closed)
	const sent = 500
	body := make([]pipelinetest.Packet, 0, sent)
	for i := range cap(body) { // more than a pull brings
		p := pipelinetest.One("a", 0, 2, float32(i%100), i%2 == 1)
		p.Header["X-Filler"] = fmt.Sprintf("%02000d", i)
		body = append(body, p)
	}
	b.publishPackets(body)
	b.purgeTo(c.Job, sent-11)
	part := r.counters.Owned()[wire.PartitionOf("a", 64)]
	// A consumer recreated since then has reported it already: the partition leaves the
	// common consumer while its shard is blocked.
	for end := time.Now().Add(patience); !part.Input.Doubt.Load() && part.Input.Came.Load().Seq < sent-10; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the watch has not seen that input is missing")
		}
	}
	close(gate)
	n := r.waitUntil(t, "the end", func(s pipeline.Stats) bool { return s.Losses > 0 && part.Input.Came.Load().Seq == sent && s.Lag == 0 })
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 0, 2, 1, true)}) // no loss before this message
	got := b.awaitPredictions(c.Job, int(n.Predictions)+1)["a"]
	r.stopStage(t)
	if len(got) >= sent/2 {
		t.Fatalf("%d predictions: nothing was lost, the test has lost its subject", len(got))
	}
	first := slices.IndexFunc(got, func(p codec.Prediction) bool { return p.Flags != 0 })
	if n := len(got); first < 0 || first > shard.QueueLength/2+1 || got[n-1].Flags.Integrity() != "complete" {
		t.Errorf("of %d predictions, the first flagged is %d, the last is %v", n, first, got[n-1].Flags)
	}
	if i := len(got) - 7; got[i].Flags.Integrity() != "gap" || got[i+1].Flags != 0 { // messages 490 to 500 remain after the loss, and one came since
		t.Errorf("the first prediction behind the loss has %v, the next %v", got[i].Flags, got[i+1].Flags)
	}
}

// gated is an engine that waits.
type gated struct {
	reservoir.Engine
	gate chan struct{}
}

func (g *gated) Advance(x []float32, runs []reservoir.Run, scores []float32) error {
	if len(runs) > 0 {
		<-g.gate
	}
	return g.Engine.Advance(x, runs, scores)
}

// A partition without messages while the others' input expires has lost nothing, and
// its record shows it before the input's beginning has reached the partition's
// position.
func TestSilenceIsNoLoss(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "silent", Partitions: 2, InputMaxAge: time.Hour, Lease: 300 * time.Millisecond, StopTimeout: patience} // both partitions must be released, however slow the machine
	keys := map[int]string{}
	for i := 0; len(keys) < 2; i++ {
		keys[wire.PartitionOf(fmt.Sprint("k", i), 2)] = fmt.Sprint("k", i)
	}
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One(keys[0], 0, 2, 1, false)})
	b.publishPackets(endedSequences(keys[1], 20, 1))
	b.settleMessages(r, 21)
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, rec := b.lastRecord(c.Job, 0); rec.InSeq == 1 && rec.EmptyTo == 21 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("no record says that partition 0 has nothing up to message 21: %+v", rec)
		}
	}
	r.stopStage(t)
	if _, rec := b.lastRecord(c.Job, 0); rec.Kind != wire.KindReleased || rec.EmptyTo != 21 {
		t.Fatalf("released as %+v, want it to know of nothing up to message 21", rec)
	}
	b.purgeTo(c.Job, 21)
	r = b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One(keys[0], 0, 2, 2, true)})
	got := b.awaitPredictions(c.Job, 21)[keys[0]]
	if len(got) != 1 || got[0].Flags != 0 {
		t.Errorf("the silent key's prediction: %+v, want it complete", got)
	}
	r.stopStage(t)
}
