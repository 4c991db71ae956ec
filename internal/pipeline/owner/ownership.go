package owner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Ownership is the time between a claim of a partition and its end: released, taken
// over by another worker (fenced), or stopped by an error. A separate goroutine
// (HoldPartition) claims, restores, reads and releases. Shard, emitter, uploads and
// Status use parts of the Ownership: each part has a single writer, or a separate lock.
type Ownership struct {
	w     *Worker
	part  *shard.Partition
	shard *shard.Shard
	c     *store.Committer // of Hold until the shard has the partition, then the emitter's

	ctx  context.Context // ends when the partition is to be given up
	Stop context.CancelFunc

	end
	claimed   atomic.Pointer[claim] // nil before the claim
	first     uint64                // first message of the input
	namedRows map[uint64]bool       // stored rows that the record's snapshot names
	began     string                // snapshot of the restore, empty = from message 1

	reading, isRebuilt atomic.Bool             // progress, for Status
	waiting            atomic.Pointer[waiting] // for the server to take something; nil = for nothing

	Input   inputView
	changed chan struct{} // the input's reader, see followInput
	storing storing
	keeping keeping

	promoting promoting
	untold    []untold // spans of messages not yet covered by a stored position; used with c
}

// end is how an ownership ends.
type end struct {
	failed atomic.Bool // no further commit is allowed
	mu     sync.Mutex
	reason error         // the cause, guarded by mu
	closed chan struct{} // the stage has no more resources of the ownership
	Ended  chan struct{} // Hold has returned
}

// claim is the result of a claim.
type claim struct {
	epoch uint64
	found string    // the snapshot in the record
	at    time.Time // when
}

// New prepares the ownership of a partition with the given index in its shard. Nothing
// is claimed yet. It ends with ctx, or with stop.
func New(ctx context.Context, w *Worker, s *shard.Shard, part, index int) *Ownership {
	ctx, stop := context.WithCancel(ctx)
	t := &Ownership{w: w, part: shard.NewPartition(part, index), shard: s, ctx: ctx, Stop: stop}
	t.changed = make(chan struct{}, 1)
	t.closed, t.Ended = make(chan struct{}), make(chan struct{})
	t.c = &store.Committer{
		JS: w.Server.JS, Stream: w.Server.Out, Link: w.Server.Link, Job: w.Job, InputJob: w.Server.In.Job, Part: part, Worker: w.Name, Ours: s.Arithmetic, Model: w.Model, Generation: w.Generation, Log: w.Log, Condition: w.Condition,
		Retries: func() { w.Counters.Retries.Add(1) },
		Begins:  t.checkUnanswered,
		Waits:   func(err error) error { return t.RetryLater("commit on "+t.c.Subject(), err) },
		Refuses: func(r wire.Record) error {
			if err := w.otherGeneration(t.c.Subject(), r); err != nil {
				return err
			}
			return OtherRecord(t.c.Subject(), r, s.Arithmetic, w.Model)
		},
	}
	t.part.Owner = t
	t.storing.home = w.Server.Snaps.Generation.Load()
	return t
}

// Fail ends an ownership: later results are dropped.
func (t *Ownership) Fail(err error) {
	t.end.mu.Lock()
	if t.reason == nil {
		t.reason = err
	}
	t.end.mu.Unlock()
	t.failed.Store(true)
	t.Stop()
}

// Failed reports whether nothing more of the partition may be committed.
func (t *Ownership) Failed() bool { return t.failed.Load() }

// Err returns the cause of the failure.
func (t *Ownership) Err() error {
	t.end.mu.Lock()
	defer t.end.mu.Unlock()
	return t.reason
}

// Claim returns the worker's name, and the epoch of the claim; 0 before the claim.
func (t *Ownership) Claim() (worker string, epoch uint64) { return t.w.Name, t.epoch() }

func (t *Ownership) epoch() uint64 {
	if c := t.claimed.Load(); c != nil {
		return c.epoch
	}
	return 0
}

// IsRebuilt reports whether the state contains everything answered before.
func (t *Ownership) IsRebuilt() bool { return t.isRebuilt.Load() }

// Rebuilt records that the state contains everything answered before.
func (t *Ownership) Rebuilt() { t.isRebuilt.Store(true) }

// HoldPartition claims the partition and works on it until t.ctx ends, then releases it
// in order. started is called when reading has begun.
func (t *Ownership) HoldPartition(started func()) {
	defer close(t.Ended)
	if err := t.beginOwnership(); err != nil {
		err = t.c.CheckOvertaken(t.ctx, err)
		if t.ctx.Err() == nil {
			t.Fail(err)
		} else {
			t.releaseUnused()
		}
		return
	}
	claim := t.claimed.Load()
	orphans, err := t.w.Server.Snaps.RemoveOrphans(t.ctx, t.part.State.ID, claim.epoch, t.namedRows)
	if err != nil {
		t.w.Log.Debug("unused state rows not listed; they are deleted after the next claim", "partition", t.part.State.ID, "err", err)
	}
	if !t.sendJob(shard.Job{Part: t.part, Order: shard.OrderOpen}) {
		return
	}
	consumer, err := t.beginReading()
	if err != nil && t.ctx.Err() == nil {
		t.Fail(err)
	}
	ended := t.followInput(consumer)
	if err == nil {
		t.w.Counters.Claims.Add(1)
		t.w.Counters.Owned.Add(1)
		defer t.w.Counters.Owned.Add(-1)
		t.reading.Store(true)
		started()
		if store.Pause(t.ctx, t.w.Keep) == nil { // see retire.go
			t.w.Server.Snaps.SweepRows(t.ctx, orphans, t.part.State.ID, claim.epoch, t.namedRows, t.w.Log)
		}
	}
	<-t.ctx.Done()
	t.checkSnapshots()
	<-ended
	if t.sendJob(shard.Job{Part: t.part, Order: shard.OrderClose}) {
		select {
		case <-t.closed:
			t.explainLostRow()
		case <-t.w.Shards.Done():
		}
	}
}

// releaseUnused releases a claimed partition before any work: the record stays as
// found.
func (t *Ownership) releaseUnused() {
	if t.c.Last == 0 { // nor claimed
		return
	}
	next := t.c.Record
	next.Kind = wire.KindReleased
	t.c.Reassure(t.shard.LastContext())
	t.c.BeginPublish(t.w.Empty, next, nil)
	if err := t.c.AwaitPublish(t.shard.LastContext()); err != nil && !errors.Is(err, store.ErrFenced) {
		t.Fail(err)
	}
}

// sendJob passes an order to the shard; false means: the shard has ended.
func (t *Ownership) sendJob(j shard.Job) bool {
	select {
	case t.shard.Queue <- j:
		return true
	case <-t.w.Shards.Done():
		return false
	}
}

// beginOwnership claims the partition, checks the input and restores the state.
func (t *Ownership) beginOwnership() error {
	patience := t.w.Now().Add(t.w.Lease)
	err := t.c.ClaimPartition(t.ctx, t.w.Empty, func(r wire.Record) bool {
		return r.Kind != wire.KindReleased && t.w.Lives(r.Worker) && t.w.Now().Before(patience)
	})
	if err != nil {
		return err
	}
	t.NoteTaken()
	t.promoting.noteRecorded(t.c.Record.Promoted)
	t.claimed.Store(&claim{epoch: t.c.Record.Epoch, found: t.c.Record.Snap, at: time.Now()})
	err = t.checkInput(t.ctx)
	if t.w.Claimed != nil {
		err = t.w.Claimed(t.part.State, err)
	}
	if err != nil {
		return err
	}
	if t.c.Record.Snap != "" {
		if err := t.restoreState(); err != nil {
			return err
		}
		if t.w.Restored != nil {
			t.w.Restored(t.part.State)
		}
	}
	if t.part.State.ReplayTo > t.part.State.Done {
		t.w.Counters.Replaying.Add(1)
	}
	return nil
}

// Tick lets an idle partition commit and store due data. A busy shard gets no tick: the
// shard's batches do the same.
func (t *Ownership) Tick() {
	if t.epoch() == 0 || t.failed.Load() || t.ctx.Err() != nil {
		return
	}
	select {
	case t.shard.Queue <- shard.Job{Part: t.part, Order: shard.OrderTick}:
	default:
	}
}

// SweepableClaim returns the partition's claim for a sweep, whether the partition was
// claimed, and whether its objects may be swept. Nothing may be swept while data
// replaced before the claim is kept, or while the state was rebuilt without the
// record's snapshot: then any snapshot may be needed.
func (t *Ownership) SweepableClaim() (c store.Claim, claimed, may bool) {
	found := t.claimed.Load()
	if found == nil {
		return c, false, false
	}
	may = !t.storing.isLost() && !t.Failed() && time.Since(found.at) >= t.w.Keep
	return store.Claim{Epoch: found.epoch, Found: found.found}, true, may
}

// Saving is how far the states are stored.
func (t *Ownership) Saving() shard.Saving {
	generation := t.w.Server.Snaps.Generation.Load()
	t.storing.mu.Lock()
	defer t.storing.mu.Unlock()
	home := t.storing.home
	if t.storing.ready != nil {
		home = t.storing.ready.home
	}
	return shard.Saving{Seq: t.storing.saved, Uploading: t.storing.isBusy(time.Now()), Lost: home != generation}
}

// NoteSnapshot records that the shard has taken a snapshot after seq, which no longer
// names the stored rows in freed.
func (t *Ownership) NoteSnapshot(seq uint64, freed []uint64, upload bool) {
	t.storing.mu.Lock()
	defer t.storing.mu.Unlock()
	if len(freed) > 0 {
		t.storing.freed = append(t.storing.freed, freedRows{seq, freed})
	}
	t.storing.uploading = t.storing.uploading || upload
}

// hasToSay reports whether an ownership without new input must update the record at
// input message seq: with a snapshot, the end of an empty range, or an expected
// promotion.
func (t *Ownership) hasToSay(seq uint64) bool {
	if v, empty := &t.Input, t.Input.emptyAfter(seq); empty > v.told.Load() && v.tell.Swap(false) {
		v.told.Store(empty)
		return true
	}
	return t.storing.unnamedSnapshot() != nil || t.promoting.isUnrecorded()
}

// lastLookTime is how long the last check of the snapshots waits before a partition is
// released.
const lastLookTime = 2 * time.Second

// checkSnapshots checks the snapshots before a partition is released: the release names
// the last snapshot, and takes another snapshot only if the last is lost.
func (t *Ownership) checkSnapshots() {
	if t.failed.Load() || !t.w.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(t.shard.LastContext(), lastLookTime)
	defer cancel()
	for t.w.Server.Auxiliary.CheckStream(ctx, wire.SnapshotStream(t.w.Job)) && store.Pause(ctx, store.RetryWait) == nil {
	}
}

// explainLostRow checks whether a stored row is missing because another worker now owns
// the partition: the partition's snapshots do not name this worker's rows. No other
// code uses the committer anymore.
func (t *Ownership) explainLostRow() {
	if err := t.Err(); errors.Is(err, store.ErrRow) {
		ctx, cancel := context.WithCancel(t.shard.LastContext()) // a stop does not wait for the server without end
		defer cancel()
		defer context.AfterFunc(t.w.Shards, cancel)()
		err = t.c.CheckOvertaken(ctx, err)
		t.end.mu.Lock()
		t.reason = err
		t.end.mu.Unlock()
	}
}

// waiting is the reason for a retry while the server refuses a request of a partition.
type waiting struct {
	since, told time.Time
	why         string
}

// RetryLater records the server's refusal of a request of the partition. The request is
// retried unless the partition has ended: then RetryLater returns the cause. Only the
// publishing goroutine calls RetryLater.
func (t *Ownership) RetryLater(what string, err error) error {
	if t.failed.Load() {
		return fmt.Errorf("%w: %s", store.ErrUnfinished, what)
	}
	w := t.waiting.Load()
	now := time.Now()
	next := &waiting{since: now, told: now, why: fmt.Sprintf("%s: %v", what, natsclient.Plain(err))}
	if w != nil {
		next.since, next.told = w.since, w.told
	}
	if now.Sub(next.told) >= store.ToldEvery {
		next.told = now
		t.w.Log.Warn("publish failed, retrying: check that the server is reachable, and that the NATS stream exists and has space", "partition", t.part.State.ID, "what", what, "err", natsclient.Plain(err))
	}
	t.waiting.Store(next)
	return nil
}

// NoteTaken records the server's acceptance of the request.
func (t *Ownership) NoteTaken() {
	if t.waiting.Load() != nil {
		t.waiting.Store(nil)
	}
}
