package shard

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// storeRows gives a shard a row store with short timeouts, on a separate server.
func storeRows(l *lone) *natsserver.Server {
	l.t.Helper()
	srv := pipelinetest.Server(l.t, natsserver.Options{})
	_, js := pipelinetest.Connect(l.t, srv)
	sensors, err := wire.ParsePattern(wire.DefaultInputSubject)
	if err != nil {
		l.t.Fatal(err)
	}
	jobs := store.Layout{Job: "rows", Input: sensors, Partitions: 2, MaxMessage: 960 << 10, Replicas: 1}
	if err := store.EnsureStreams(l.t.Context(), js, jobs, l.log); err != nil {
		l.t.Fatal(err)
	}
	snaps, err := store.OpenSnapshots(l.t.Context(), js, jobs.Job, jobs.Replicas)
	if err != nil {
		l.t.Fatal(err)
	}
	snaps.Patience = 300 * time.Millisecond
	l.StoreRows(snaps, l.t.Context())
	return srv
}

// A row store without answers makes the shard give up the partition that needs a row,
// for a later claim; other partitions continue.
func TestRowStoreAway(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{MaxSlots: 2})
	srv := storeRows(l)
	held := func(p *Partition) {
		p.Owner = &testOwner{name: fmt.Sprint("w", p.State.ID)}
	}
	other := NewPartition(1, 1)
	held(l.p)
	held(other)
	l.b = NewBatch(2)
	take := func(p *Partition, key string) {
		t.Helper()
		j := l.jobOf(pipelinetest.Rows(key, 0, false, 1, 2))
		j.Part = p
		l.b.Reset()
		if err := errors.Join(l.takeJob(l.b, j), l.AdvanceBatch(l.b)); err != nil {
			t.Fatal(err)
		}
	}
	take(other, "x")
	take(l.p, "a")
	take(l.p, "b") // x is stored
	if n := l.counters.Spilled.Load(); n != 1 {
		t.Fatalf("%d rows stored, want 1", n)
	}
	srv.Close()
	take(other, "x") // needs its row, and a's or b's slot
	if !other.Failed() || !errors.Is(other.Owner.(*testOwner).err, store.ErrLater) {
		t.Fatalf("the partition that needs a row: %v", other.Owner.(*testOwner).err)
	}
	if l.p.Failed() {
		t.Fatal(l.p.Owner.(*testOwner).err)
	}
	l.dropPartition(other)
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

// A partition that finds no slot in the middle of a message leaves nothing in the
// batch, which continues with the messages of other partitions.
func TestNoSlotInTheMiddleOfAMessage(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{MaxSlots: 2})
	srv := storeRows(l)
	other := NewPartition(1, 1)
	for _, p := range []*Partition{l.p, other} {
		p.Owner = &testOwner{name: fmt.Sprint("w", p.State.ID)}
	}
	l.b = NewBatch(2)
	srv.Close() // no row can be stored
	many := pipelinetest.Crowd(4)
	many.Batch.Ends = []bool{false, false, false, true}
	mine := l.jobOf(many)
	theirs := l.jobOf(pipelinetest.Rows("x", 0, true, 1, 2))
	theirs.Part = other
	if err := errors.Join(l.takeJob(l.b, mine), l.takeJob(l.b, theirs), l.AdvanceBatch(l.b)); err != nil {
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
