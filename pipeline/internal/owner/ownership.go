package owner

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

// Worker is what all ownerships of a worker share. It is not changed after
// the first ownership has begun.
type Worker struct {
	Job        string
	Subject    string // where producers publish
	Partitions int
	Lease      time.Duration
	Keep       time.Duration // how long what a record names no more is kept

	Worker string // its name
	Model  wire.Identity
	Empty  []byte // a message of no predictions
	Pull   int    // bytes that a consumer may ask for at once

	Js        jetstream.JetStream // for commits
	Link      *store.Link         // of js
	In        *store.Input
	Out       jetstream.Stream
	Snaps     *store.Snapshots
	Auxiliary *store.Auxiliary

	Counters  *stats.Counters
	Log       *slog.Logger
	Now       func() time.Time                            // what leases read
	Lives     func(worker string) bool                    // whether another worker lives, as far as is known
	Reader    func(part int) (jetstream.JetStream, error) // the connection that a partition's consumer uses
	Connected func() bool                                 // whether every connection is up
	Workers   context.Context                             // ends with the shards

	Safeguards
}

// Safeguards leave a check out each, so that the fault harness can see what that
// check is for. The zero value leaves none out; only builds with the tag chaos
// have others.
type Safeguards struct {
	Condition func(m *nats.Msg, r wire.Record)            // see store.Committer
	Claimed   func(p *state.Partition, input error) error // what a claim makes of what it found of the input, and of what is expected of the state
	Trusting  bool                                        // while it works: the input is the one it was
}

// Ownership is the time between a claim of a partition and its end: released,
// taken over by another worker (fenced), or stopped by an error. It has a
// goroutine of its own (Hold), which claims, restores, reads and ends. Its
// shard, its emitter, their uploads and Status see parts of it: each of these
// parts has one writer, or a lock of its own.
type Ownership struct {
	W     *Worker
	Part  *shard.Partition
	Shard *shard.Shard
	C     *store.Committer // of Hold until the shard has the partition, then the emitter's

	Ctx  context.Context // ends when the partition is to be given up
	Stop context.CancelFunc

	end
	Claimed   atomic.Pointer[Claim] // nil before the claim
	first     uint64                // input message that the input began with
	namedRows map[uint64]bool       // the stored rows that the snapshot in the record names
	began     string                // snapshot it was restored from, empty = from message 1

	Reading, isRebuilt atomic.Bool             // how far it has come, for Status
	waiting          atomic.Pointer[waiting] // for the server to take something; nil = for nothing

	Input inputView
	storing
	Keeping
}

// end is how an ownership ends.
type end struct {
	failed atomic.Bool // nothing more of it may be committed
	mu     sync.Mutex
	Reason error         // why, behind mu
	closed chan struct{} // nothing of it is in the stage any more
	Ended  chan struct{} // Hold has returned
}

// Claim is what a claim found.
type Claim struct {
	Epoch uint64
	found string    // the snapshot in the record
	at    time.Time // when
}

// New prepares the ownership of a partition, whose place among its
// shard's is index. Nothing is claimed yet. It ends with ctx, or by stop.
func New(ctx context.Context, w *Worker, s *shard.Shard, part, index int) *Ownership {
	ctx, stop := context.WithCancel(ctx)
	t := &Ownership{W: w, Part: shard.NewPartition(part, index), Shard: s, Ctx: ctx, Stop: stop}
	t.closed, t.Ended = make(chan struct{}), make(chan struct{})
	t.C = &store.Committer{
		Js: w.Js, Stream: w.Out, Link: w.Link, Job: w.Job, Part: part, Worker: w.Worker, Ours: s.Arithmetic, Model: w.Model, Log: w.Log, Condition: w.Condition,
		Retries: func() { w.Counters.Retries.Add(1) },
		Begins:  t.unanswered,
		Waits:   func(err error) error { return t.Waits("commit on "+t.C.Subject(), err) },
		Refuses: func(r wire.Record) error { return OtherRecord(t.C.Subject(), r, s.Arithmetic, w.Model) },
	}
	t.Part.Owner = t
	t.home = w.Snaps.Generation.Load()
	return t
}

// Fail ends an ownership: what it says from now on is dropped.
func (t *Ownership) Fail(err error) {
	t.end.mu.Lock()
	if t.Reason == nil {
		t.Reason = err
	}
	t.end.mu.Unlock()
	t.failed.Store(true)
	t.Stop()
}

// Failed reports whether nothing more of the partition may be committed.
func (t *Ownership) Failed() bool { return t.failed.Load() }

// Err is why it has failed.
func (t *Ownership) Err() error {
	t.end.mu.Lock()
	defer t.end.mu.Unlock()
	return t.Reason
}

// Claim is the worker's name, and the epoch of its claim; 0 before it.
func (t *Ownership) Claim() (worker string, epoch uint64) { return t.W.Worker, t.epoch() }

func (t *Ownership) epoch() uint64 {
	if c := t.Claimed.Load(); c != nil {
		return c.Epoch
	}
	return 0
}

// IsRebuilt reports whether the state has everything that was answered before.
func (t *Ownership) IsRebuilt() bool { return t.isRebuilt.Load() }

// Rebuilt notes that the state has everything that was answered before.
func (t *Ownership) Rebuilt() { t.isRebuilt.Store(true) }

// Hold claims the partition and works on it until t.ctx ends, then gives it
// up in order. started is called when it is being read.
func (t *Ownership) Hold(started func()) {
	defer close(t.Ended)
	if err := t.begin(); err != nil {
		err = t.C.Overtaken(t.Ctx, err)
		if t.Ctx.Err() == nil {
			t.Fail(err)
		} else {
			t.releaseUnused()
		}
		return
	}
	claim := t.Claimed.Load()
	orphans, err := t.W.Snaps.Orphans(t.Ctx, t.Part.State.ID, claim.Epoch, t.namedRows)
	if err != nil {
		t.W.Log.Debug("state rows not counted: what others left is swept after the next claim", "partition", t.Part.State.ID, "err", err)
	}
	if !t.send(shard.Job{Part: t.Part, Order: shard.OrderOpen}) {
		return
	}
	consumer, err := t.Read()
	if err != nil && t.Ctx.Err() == nil {
		t.Fail(err)
	}
	if err == nil {
		t.W.Counters.Claims.Add(1)
		t.W.Counters.Owned.Add(1)
		defer t.W.Counters.Owned.Add(-1)
		t.Reading.Store(true)
		started()
		if store.Pause(t.Ctx, t.W.Keep) == nil { // see retire.go
			t.W.Snaps.SweepRows(t.Ctx, orphans, t.Part.State.ID, claim.Epoch, t.namedRows, t.W.Log)
		}
	}
	<-t.Ctx.Done()
	t.checkSnapshots()
	if consumer != nil {
		consumer.end(LeaveDeadline)
	}
	if t.send(shard.Job{Part: t.Part, Order: shard.OrderClose}) {
		select {
		case <-t.closed:
			t.ExplainLostRow()
		case <-t.W.Workers.Done():
		}
	}
}

// releaseUnused releases a partition that was claimed but not begun with: its
// record stands as it was found.
func (t *Ownership) releaseUnused() {
	if t.C.Last == 0 { // nor claimed
		return
	}
	next := t.C.Record
	next.Kind = wire.KindReleased
	t.C.Reassure(t.Shard.Last)
	t.C.Begin(t.W.Empty, next)
	if err := t.C.Await(t.Shard.Last); err != nil && !errors.Is(err, store.ErrFenced) {
		t.Fail(err)
	}
}

// send passes an order to the shard; false if that has ended.
func (t *Ownership) send(j shard.Job) bool {
	select {
	case t.Shard.Queue <- j:
		return true
	case <-t.W.Workers.Done():
		return false
	}
}

// begin claims the partition, checks the input and restores the state.
func (t *Ownership) begin() error {
	patience := t.W.Now().Add(t.W.Lease)
	err := t.C.Claim(t.Ctx, t.W.Empty, func(r wire.Record) bool {
		return r.Kind != wire.KindReleased && t.W.Lives(r.Worker) && t.W.Now().Before(patience)
	})
	if err != nil {
		return err
	}
	t.Taken()
	t.Claimed.Store(&Claim{Epoch: t.C.Record.Epoch, found: t.C.Record.Snap, at: time.Now()})
	err = t.checkInput(t.Ctx)
	if t.W.Claimed != nil {
		err = t.W.Claimed(t.Part.State, err)
	}
	if err != nil {
		return err
	}
	if t.C.Record.Snap != "" {
		if err := t.Restore(); err != nil {
			return err
		}
	}
	if t.Part.State.ReplayTo > t.Part.State.Done {
		t.W.Counters.Replaying.Add(1)
	}
	return nil
}

// Tick lets an idle partition commit and store what is due. A shard that is
// busy gets no tick: its batches do the same.
func (t *Ownership) Tick() {
	if t.epoch() == 0 || t.failed.Load() || t.Ctx.Err() != nil {
		return
	}
	select {
	case t.Shard.Queue <- shard.Job{Part: t.Part, Order: shard.OrderTick}:
	default:
	}
}

// Sweepable is what a sweep must know of the partition: its claim, whether it
// has been claimed, and whether anything of it may be swept. Nothing may while
// what was replaced before the claim is kept, and while the state was rebuilt
// without the snapshot that the record names: then any snapshot may be needed.
func (t *Ownership) Sweepable() (c store.Claim, claimed, may bool) {
	found := t.Claimed.Load()
	if found == nil {
		return c, false, false
	}
	may = !t.isLost() && !t.Failed() && time.Since(found.at) >= t.W.Keep
	return store.Claim{Epoch: found.Epoch, Found: found.found}, true, may
}
