package pipeline

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// ownership is the time between a claim of a partition and its end: released,
// taken over by another worker (fenced), or stopped by an error. It has a
// goroutine of its own, which claims, restores, reads and ends.
type ownership struct {
	*run
	part  *partition
	shard *shard
	c     *committer

	ctx  context.Context // ends when the partition is to be given up
	stop context.CancelFunc

	failed  atomic.Bool // nothing more of it may be committed
	reason  error       // why, behind mu
	mu      sync.Mutex
	closed  chan struct{}           // nothing of it is in the stage any more
	ended   chan struct{}           // run has returned
	waiting atomic.Pointer[waiting] // for the server to take something; nil = for nothing

	reading, rebuilt atomic.Bool // how far it has come, for Status

	claim
	saving
	keeping
}

// claim is what a claim found. What the sweep reads is written before epoch.
type claim struct {
	epoch     atomic.Uint64   // 0 before the claim
	found     string          // the snapshot in the record
	claimed   time.Time       // when
	namedRows map[uint64]bool // the stored rows that the snapshot names
	first     uint64          // input message that the input began with
	began     string          // snapshot it was restored from, empty = from message 1
}

// saving is how far the partition's states are stored.
type saving struct {
	uploading atomic.Bool // a snapshot is
	ready     atomic.Pointer[stored]
	saved     atomic.Uint64 // last input message of the snapshot in the record
	bucketAge atomic.Uint64 // snapshots.generation when that one was stored, or the ownership began
	unsaved   atomic.Int64  // since when messages are answered that no snapshot holds, ns; 0 = none are
	answered  uint64        // last input message answered after a replay; the emitter's
	freed     []freedRows   // behind mu, in order
}

// keeping is what records named before, and is kept for a while; of whoever
// commits.
type keeping struct {
	replaced []retired // oldest first
	keptRows int       // of these
	lastKept time.Time // when the last snapshot of these was replaced
}

// stored is a snapshot in the store that no record names yet.
type stored struct {
	name      string
	seq       uint64
	at        time.Time // no message was answered later that it holds
	bucketAge uint64    // see ownership.bucketAge
}

// fail ends an ownership: what it says from now on is dropped.
func (t *ownership) fail(err error) {
	t.mu.Lock()
	if t.reason == nil {
		t.reason = err
	}
	t.mu.Unlock()
	t.failed.Store(true)
	t.stop()
}

func (t *ownership) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reason
}

// trackUnsaved takes down what Status says of the age of what no snapshot holds.
// What was answered before the ownership and is replayed has no age here.
func (t *ownership) trackUnsaved(seq uint64, now time.Time) {
	if seq <= t.part.state.ReplayTo || t.failed.Load() {
		return
	}
	t.answered = seq
	if seq > t.saved.Load() && t.unsaved.Load() == 0 {
		t.unsaved.Store(now.UnixNano())
	}
}

// unstored reports whether the snapshot in the record is lost, with the bucket
// it was in, and none waits to take its place.
func (t *ownership) unstored() bool {
	home := t.bucketAge.Load()
	if now := t.ready.Load(); now != nil {
		home = now.bucketAge
	}
	return home != t.snaps.Generation.Load()
}

// named reports whether a snapshot waits to be named by a commit.
func (t *ownership) named() bool { return t.ready.Load() != nil }

// hold claims the partition and works on it until t.ctx ends, then gives it
// up in order. started is called when it is being read.
func (t *ownership) hold(started func()) {
	defer close(t.ended)
	if err := t.begin(); err != nil {
		err = t.c.overtaken(t.ctx, err)
		if t.ctx.Err() == nil {
			t.fail(err)
		} else {
			t.releaseUnused()
		}
		return
	}
	orphans, err := t.snaps.Orphans(t.ctx, t.part.state.ID, t.epoch.Load(), t.namedRows)
	if err != nil {
		t.log.Debug("state rows not counted: what others left is swept after the next claim", "partition", t.part.state.ID, "err", err)
	}
	if !t.send(job{part: t.part, order: orderOpen}) {
		return
	}
	consumer, err := t.read()
	if err != nil && t.ctx.Err() == nil {
		t.fail(err)
	}
	if err == nil {
		t.counters.Claims.Add(1)
		t.counters.Owned.Add(1)
		defer t.counters.Owned.Add(-1)
		t.reading.Store(true)
		started()
		if store.Pause(t.ctx, t.keeps()) == nil { // see retire.go
			t.snaps.SweepRows(t.ctx, orphans, t.part.state.ID, t.epoch.Load(), t.namedRows, t.log)
		}
	}
	<-t.ctx.Done()
	t.checkSnapshots()
	if consumer != nil {
		consumer.end(leaveDeadline)
	}
	if t.send(job{part: t.part, order: orderClose}) {
		select {
		case <-t.closed:
			t.explainLostRow()
		case <-t.workers.Done():
		}
	}
}

// releaseUnused releases a partition that was claimed but not begun with: its
// record stands as it was found.
func (t *ownership) releaseUnused() {
	if t.c.last == 0 { // nor claimed
		return
	}
	next := t.c.Record
	next.Kind = wire.KindReleased
	t.c.reassure(t.shard.last)
	t.c.begin(t.empty, next)
	if err := t.c.await(t.shard.last); err != nil && !errors.Is(err, errFenced) {
		t.fail(err)
	}
}

// send passes an order to the shard; false if that has ended.
func (t *ownership) send(j job) bool {
	select {
	case t.shard.queue <- j:
		return true
	case <-t.workers.Done():
		return false
	}
}

// begin claims the partition, checks the input and restores the state.
func (t *ownership) begin() error {
	patience := t.now().Add(t.cfg.Lease)
	err := t.c.claim(t.ctx, t.empty, func(r wire.Record) bool {
		return r.Kind != wire.KindReleased && t.members.others(r.Worker) && t.now().Before(patience)
	})
	if err != nil {
		return err
	}
	t.taken()
	t.found, t.claimed = t.c.Snap, time.Now()
	t.epoch.Store(t.c.Epoch) // from here on the manager's sweep reads found
	if err := t.guard.heed(t.part, t.checkInput(t.ctx)); err != nil {
		return err
	}
	if t.c.Snap != "" {
		if err := t.restore(); err != nil {
			return err
		}
	}
	if t.part.state.ReplayTo > t.part.state.Done {
		t.counters.Replaying.Add(1)
	}
	return nil
}
