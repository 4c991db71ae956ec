package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/owner"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/shard"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// opened is a job that was stopped with open sequences, most of whose rows
// are stored apart.
func opened(t *testing.T, job string, streams int) (*rig, *reservoir.Model, Config) {
	t.Helper()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quick(job, 1)
	c.MaxSlots = 2
	r := b.start(m, c)
	for i := range streams {
		b.publish([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", i), 1, 2, float32(i)/9, false)})
	}
	b.settle(r, streams)
	r.stop(t)
	if n := len(b.named(job, 0)); n < streams-2 {
		t.Fatalf("%d rows of %d are stored apart: the test has lost its subject", n, streams)
	}
	return b, m, c
}

// snapshotsOf is the store of a job that has not run.
func snapshotsOf(ctx context.Context, js jetstream.JetStream, c Config) (*store.Snapshots, error) {
	c = c.WithDefaults()
	if err := store.EnsureStreams(ctx, js, c.layout(), slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	return store.OpenSnapshots(ctx, js, c.Job, c.Replicas)
}

// Rows that are lost or changed stop their partition when they are needed,
// with a message that says what to do; verify finds them before.
func TestRowDamage(t *testing.T) {
	for name, c := range map[string]struct {
		hurt func(s jetstream.Stream, ref wire.RowRef, b *rig) error
		says []string
	}{
		"deleted": {func(s jetstream.Stream, ref wire.RowRef, b *rig) error {
			return s.DeleteMsg(context.Background(), ref.Seq)
		}, []string{"is lost", "restore the store"}},
		"gone": {func(s jetstream.Stream, ref wire.RowRef, b *rig) error { return s.Purge(context.Background()) }, []string{"is lost", "restore the store"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, m, conf := opened(t, "hurt", 6)
			s, err := b.js.Stream(t.Context(), wire.RowStream("hurt"))
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range b.named("hurt", 0) {
				if err := c.hurt(s, ref, b); err != nil {
					t.Fatal(err)
				}
			}
			check := &Stage{Config: conf, Model: m, NewEngine: pipelinetest.Generic}
			_, err = check.Verify(t.Context(), b.js, 0)
			mentions(t, err, c.says...)
			_, err = Snapshot(t.Context(), b.js, "hurt", 0)
			mentions(t, err, c.says...)
			before := len(b.predictions("hurt"))
			r := b.start(m, conf)
			for i := range 6 {
				b.publish([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", i), 2, 1, 1, true)})
			}
			mentions(t, r.wait(t), c.says...)
			if n := len(b.predictions("hurt")); n != before {
				t.Errorf("%d streams have predictions", n)
			}
		})
	}
}

// A worker that was overtaken finds rows missing that its successor has put
// out of use: it is late, and its partition not broken.
func TestMissingRowOfTheOvertaken(t *testing.T) {
	b, m, c := opened(t, "late", 6)
	r := b.start(m, c)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	other := &store.Committer{JS: b.js, Stream: out, Job: "late", Worker: "other", Log: b.log, Retries: func() {}}
	empty, err := (&run{self: self{meta: codec.PredictionMeta{Labels: []string{"a", "b"}}}}).newEmpty()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Claim(t.Context(), empty, func(wire.Record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	s, err := b.js.Stream(t.Context(), wire.RowStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		b.publish([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", i), 2, 1, 1, true)})
	}
	r.until(t, "fencing", func(s Stats) bool { return s.Fenced == 1 && s.Stopped == 0 })
	// It claims the partition again, and now the rows are missed.
	mentions(t, r.wait(t), "is lost")
}

// A row is taken only if it is what was stored, bit for bit.
func TestParseRow(t *testing.T) {
	row := []uint32{1, 2, 0xffffffff}
	data := state.AppendRowWords(nil, row)
	ref := wire.RowRef{Seq: 3, Hash: wire.HashOf(data)}
	if got, err := store.ParseRow(data, ref, 3, "X"); err != nil || !slices.Equal(got, row) {
		t.Fatalf("%v, %v", got, err)
	}
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		if _, err := store.ParseRow(data, ref, 3, "X"); err == nil {
			t.Fatalf("bit %d is wrong and nobody says so", bit)
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	for _, words := range []int{2, 4} {
		if _, err := store.ParseRow(data, ref, words, "X"); err == nil {
			t.Errorf("a row of 3 words passes for one of %d", words)
		}
	}
}

// A store of rows that does not answer gives up the partition that needs it,
// to be claimed again, and leaves the others alone.
func TestRowStoreAway(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := Config{Job: "away", Partitions: 2, Shards: 1, MaxSlots: 2}.WithDefaults()
	snaps, err := snapshotsOf(t.Context(), b.js, c)
	if err != nil {
		t.Fatal(err)
	}
	snaps.Patience = 300 * time.Millisecond
	l := newLone(t, m, Config{MaxSlots: 2})
	l.Store, l.Last = snaps, t.Context()
	held := func(p *shard.Partition) {
		p.Owner = &testOwner{name: fmt.Sprint("w", p.State.ID)}
	}
	other := shard.NewPartition(1, 1)
	held(l.p)
	held(other)
	l.b = shard.NewBatch(2)
	take := func(p *shard.Partition, key string) {
		t.Helper()
		j := l.job(pipelinetest.Rows(key, 0, false, 1, 2))
		j.Part = p
		l.b.Reset()
		if err := errors.Join(l.Ingest(l.b, j), l.Advance(l.b)); err != nil {
			t.Fatal(err)
		}
	}
	take(other, "x")
	take(l.p, "a")
	take(l.p, "b") // x is stored
	if n := l.Counters.Spilled.Load(); n != 1 {
		t.Fatalf("%d rows stored, want 1", n)
	}
	b.srv.Close()
	take(other, "x") // needs its row, and a's or b's slot
	if !other.Failed() || !errors.Is(other.Owner.(*testOwner).err, store.ErrLater) {
		t.Fatalf("the partition that needs a row: %v", other.Owner.(*testOwner).err)
	}
	if l.p.Failed() {
		t.Fatal(l.p.Owner.(*testOwner).err)
	}
	l.Drop(other)
	take(l.p, "a")
	take(l.p, "b")
	if l.p.Failed() {
		t.Fatalf("the other partition: %v", l.p.Owner.(*testOwner).err)
	}
	take(l.p, "c")
	if !errors.Is(l.p.Owner.(*testOwner).err, store.ErrLater) {
		t.Fatalf("a third sequence with room for two: %v", l.p.Owner.(*testOwner).err)
	}
}

// A partition that finds no slot in the middle of a message leaves nothing
// behind in the batch, which goes on with the messages of others.
func TestNoSlotInTheMiddleOfAMessage(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := Config{Job: "middle", Partitions: 2, Shards: 1, MaxSlots: 2}.WithDefaults()
	snaps, err := snapshotsOf(t.Context(), b.js, c)
	if err != nil {
		t.Fatal(err)
	}
	snaps.Patience = 300 * time.Millisecond
	l := newLone(t, m, Config{MaxSlots: 2})
	l.Store, l.Last = snaps, t.Context()
	other := shard.NewPartition(1, 1)
	for _, p := range []*shard.Partition{l.p, other} {
		p.Owner = &testOwner{name: fmt.Sprint("w", p.State.ID)}
	}
	l.b = shard.NewBatch(2)
	b.srv.Close() // no row can be stored
	many := pipelinetest.Crowd(4)
	many.Batch.Ends = []bool{false, false, false, true}
	mine := l.job(many)
	theirs := l.job(pipelinetest.Rows("x", 0, true, 1, 2))
	theirs.Part = other
	if err := errors.Join(l.Ingest(l.b, mine), l.Ingest(l.b, theirs), l.Advance(l.b)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(l.p.Owner.(*testOwner).err, store.ErrLater) {
		t.Fatalf("four open sequences with room for two: %v", l.p.Owner.(*testOwner).err)
	}
	if other.Failed() {
		t.Fatalf("the other partition: %v", other.Owner.(*testOwner).err)
	}
	want := newLone(t, m, Config{}).feedAll(pipelinetest.Rows("x", 0, true, 1, 2))
	if got := l.b.Answers[1].Preds; len(got) != 1 || !slices.Equal(got[0].Scores, want[0].Scores) {
		t.Errorf("the other partition has %+v, want %+v", got, want)
	}
}

// away is a NATS stream whose server does not answer.
type away struct{ jetstream.Stream }

func (away) GetLastMsgForSubject(ctx context.Context, _ string) (*jetstream.RawStreamMsg, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An ownership that lost a row asks whether it was overtaken, and a stop does not
// wait for the answer longer than for anything else.
func TestStopDoesNotWaitForTheOvertaken(t *testing.T) {
	t.Parallel()
	last, over := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer over()
	lost := fmt.Errorf("row 1: %w", store.ErrRow)
	var sh shard.Shard
	sh.Last = last
	tn := &owner.Ownership{
		W: &owner.Worker{Shards: t.Context()}, Shard: &sh, Stop: func() {},
		C: &store.Committer{Stream: away{}, Job: "x", Last: 1},
	}
	tn.Fail(lost)
	ended := make(chan struct{})
	go func() { tn.ExplainLostRow(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it waits for a server that does not answer")
	}
	if err := tn.Err(); !errors.Is(err, store.ErrRow) {
		t.Errorf("the reason is now %v", err)
	}
}
