package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/shard"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/stats"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ownerWorker is what all ownerships of a worker share. It is not changed after
// the first ownership has begun.
type ownerWorker struct {
	job        string
	subject    string // where producers publish
	partitions int
	lease      time.Duration
	keep       time.Duration // how long what a record names no more is kept

	worker string // its name
	model  wire.Identity
	empty  []byte // a message of no predictions
	pull   int    // bytes that a consumer may ask for at once

	js        jetstream.JetStream // for commits
	link      *store.Link         // of js
	in        *store.Input
	out       jetstream.Stream
	snaps     *store.Snapshots
	auxiliary *store.Auxiliary

	counters  *stats.Counters
	log       *slog.Logger
	now       func() time.Time                            // what leases read
	lives     func(worker string) bool                    // whether another worker lives, as far as is known
	reader    func(part int) (jetstream.JetStream, error) // the connection that a partition's consumer uses
	connected func() bool                                 // whether every connection is up
	workers   context.Context                             // ends with the shards

	safeguards
}

// safeguards leave a check out each, so that the fault harness can see what that
// check is for. The zero value leaves none out; only builds with the tag chaos
// have others.
type safeguards struct {
	condition func(m *nats.Msg, r wire.Record)            // see store.Committer
	claimed   func(p *state.Partition, input error) error // what a claim makes of what it found of the input, and of what is expected of the state
	trusting  bool                                        // while it works: the input is the one it was
}

// ownership is the time between a claim of a partition and its end: released,
// taken over by another worker (fenced), or stopped by an error. It has a
// goroutine of its own (Hold), which claims, restores, reads and ends. Its
// shard, its emitter, their uploads and Status see parts of it: each of these
// parts has one writer, or a lock of its own.
type ownership struct {
	w     *ownerWorker
	part  *shard.Partition
	shard *shard.Shard
	c     *store.Committer // of Hold until the shard has the partition, then the emitter's

	ctx  context.Context // ends when the partition is to be given up
	stop context.CancelFunc

	end
	claim     atomic.Pointer[claim] // nil before the claim
	first     uint64                // input message that the input began with
	namedRows map[uint64]bool       // the stored rows that the snapshot in the record names
	began     string                // snapshot it was restored from, empty = from message 1

	reading, rebuilt atomic.Bool             // how far it has come, for Status
	waiting          atomic.Pointer[waiting] // for the server to take something; nil = for nothing

	input inputView
	storing
	keeping
}

// end is how an ownership ends.
type end struct {
	failed atomic.Bool // nothing more of it may be committed
	mu     sync.Mutex
	reason error         // why, behind mu
	closed chan struct{} // nothing of it is in the stage any more
	ended  chan struct{} // Hold has returned
}

// claim is what a claim found.
type claim struct {
	epoch uint64
	found string    // the snapshot in the record
	at    time.Time // when
}

// newOwnership prepares the ownership of a partition, whose place among its
// shard's is index. Nothing is claimed yet. It ends with ctx, or by stop.
func newOwnership(ctx context.Context, w *ownerWorker, s *shard.Shard, part, index int) *ownership {
	ctx, stop := context.WithCancel(ctx)
	t := &ownership{w: w, part: shard.NewPartition(part, index), shard: s, ctx: ctx, stop: stop}
	t.closed, t.ended = make(chan struct{}), make(chan struct{})
	t.c = &store.Committer{
		Js: w.js, Stream: w.out, Link: w.link, Job: w.job, Part: part, Worker: w.worker, Ours: s.Arithmetic, Model: w.model, Log: w.log, Condition: w.condition,
		Retries: func() { w.counters.Retries.Add(1) },
		Begins:  t.unanswered,
		Waits:   func(err error) error { return t.Waits("commit on "+t.c.Subject(), err) },
		Refuses: func(r wire.Record) error { return otherRecord(t.c.Subject(), r, s.Arithmetic, w.model) },
	}
	t.part.Owner = t
	t.home = w.snaps.Generation.Load()
	return t
}

// Fail ends an ownership: what it says from now on is dropped.
func (t *ownership) Fail(err error) {
	t.end.mu.Lock()
	if t.reason == nil {
		t.reason = err
	}
	t.end.mu.Unlock()
	t.failed.Store(true)
	t.stop()
}

// Failed reports whether nothing more of the partition may be committed.
func (t *ownership) Failed() bool { return t.failed.Load() }

// err is why it has failed.
func (t *ownership) err() error {
	t.end.mu.Lock()
	defer t.end.mu.Unlock()
	return t.reason
}

// Claim is the worker's name, and the epoch of its claim; 0 before it.
func (t *ownership) Claim() (worker string, epoch uint64) { return t.w.worker, t.epoch() }

func (t *ownership) epoch() uint64 {
	if c := t.claim.Load(); c != nil {
		return c.epoch
	}
	return 0
}

// Rebuilt notes that the state has everything that was answered before.
func (t *ownership) Rebuilt() { t.rebuilt.Store(true) }

// Hold claims the partition and works on it until t.ctx ends, then gives it
// up in order. started is called when it is being read.
func (t *ownership) Hold(started func()) {
	defer close(t.ended)
	if err := t.begin(); err != nil {
		err = t.c.Overtaken(t.ctx, err)
		if t.ctx.Err() == nil {
			t.Fail(err)
		} else {
			t.releaseUnused()
		}
		return
	}
	claim := t.claim.Load()
	orphans, err := t.w.snaps.Orphans(t.ctx, t.part.State.ID, claim.epoch, t.namedRows)
	if err != nil {
		t.w.log.Debug("state rows not counted: what others left is swept after the next claim", "partition", t.part.State.ID, "err", err)
	}
	if !t.send(shard.Job{Part: t.part, Order: shard.OrderOpen}) {
		return
	}
	consumer, err := t.read()
	if err != nil && t.ctx.Err() == nil {
		t.Fail(err)
	}
	if err == nil {
		t.w.counters.Claims.Add(1)
		t.w.counters.Owned.Add(1)
		defer t.w.counters.Owned.Add(-1)
		t.reading.Store(true)
		started()
		if store.Pause(t.ctx, t.w.keep) == nil { // see retire.go
			t.w.snaps.SweepRows(t.ctx, orphans, t.part.State.ID, claim.epoch, t.namedRows, t.w.log)
		}
	}
	<-t.ctx.Done()
	t.checkSnapshots()
	if consumer != nil {
		consumer.end(leaveDeadline)
	}
	if t.send(shard.Job{Part: t.part, Order: shard.OrderClose}) {
		select {
		case <-t.closed:
			t.explainLostRow()
		case <-t.w.workers.Done():
		}
	}
}

// releaseUnused releases a partition that was claimed but not begun with: its
// record stands as it was found.
func (t *ownership) releaseUnused() {
	if t.c.Last == 0 { // nor claimed
		return
	}
	next := t.c.Record
	next.Kind = wire.KindReleased
	t.c.Reassure(t.shard.Last)
	t.c.Begin(t.w.empty, next)
	if err := t.c.Await(t.shard.Last); err != nil && !errors.Is(err, store.ErrFenced) {
		t.Fail(err)
	}
}

// send passes an order to the shard; false if that has ended.
func (t *ownership) send(j shard.Job) bool {
	select {
	case t.shard.Queue <- j:
		return true
	case <-t.w.workers.Done():
		return false
	}
}

// begin claims the partition, checks the input and restores the state.
func (t *ownership) begin() error {
	patience := t.w.now().Add(t.w.lease)
	err := t.c.Claim(t.ctx, t.w.empty, func(r wire.Record) bool {
		return r.Kind != wire.KindReleased && t.w.lives(r.Worker) && t.w.now().Before(patience)
	})
	if err != nil {
		return err
	}
	t.Taken()
	t.claim.Store(&claim{epoch: t.c.Record.Epoch, found: t.c.Record.Snap, at: time.Now()})
	err = t.checkInput(t.ctx)
	if t.w.claimed != nil {
		err = t.w.claimed(t.part.State, err)
	}
	if err != nil {
		return err
	}
	if t.c.Record.Snap != "" {
		if err := t.restore(); err != nil {
			return err
		}
	}
	if t.part.State.ReplayTo > t.part.State.Done {
		t.w.counters.Replaying.Add(1)
	}
	return nil
}

// tick lets an idle partition commit and store what is due. A shard that is
// busy gets no tick: its batches do the same.
func (t *ownership) tick() {
	if t.epoch() == 0 || t.failed.Load() || t.ctx.Err() != nil {
		return
	}
	select {
	case t.shard.Queue <- shard.Job{Part: t.part, Order: shard.OrderTick}:
	default:
	}
}
