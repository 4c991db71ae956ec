package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Stage is everything a run needs. Fields without "optional" are required.
type Stage struct {
	Config    Config
	Model     *reservoir.Model
	ModelName string        // optional: shown in predictions
	NewEngine EngineFactory // called from the shard that will own the engine
	// Fallback makes engines when one of NewEngine's is lost
	// (reservoir.ErrLost), a GPU that failed for instance, and when one of its
	// own is: it must come to an end some time, with engines that are not lost
	// or an error. Optional: without it, a loss ends the run.
	Fallback EngineFactory
	// Dial opens one more connection to the NATS server under a name. A run
	// needs a few: one for commits and one per 32 MiB of pulls. It closes
	// them all.
	Dial     func(name string) (*nats.Conn, error)
	Log      *slog.Logger // optional
	Counters *Counters    // optional: counted into, for the caller to read
	Ready    func()       // optional: called once when the worker reads its first share of the partitions
	// NewPartitions is what a new job gets where Config leaves the number open.
	// Optional: DefaultPartitions.
	NewPartitions int
	// Carry is the share of predictions, 0 to 1, that carry their features, as a
	// readout reads them, for somebody to learn from when the samples are gone (package
	// internal/learn). They go to a NATS stream of their own. Which ones they are
	// depends on stream, sequence number and row alone. Optional: none.
	Carry float64
	// Tracer decides which messages are traced, and takes their spans (docs/traces.md).
	// Optional: none are.
	Tracer trace.Tracer

	keep      time.Duration // how long what a record names no more is kept; 0 = keepReplaced, less = not
	apart     time.Duration // how long partitions read by their own consumers after a common one; 0 = owner.ApartTime; tests
	shadowing time.Duration // how long a commit waits for shadows; 0 = store.ShadowPatience; tests
	guard     safeguard     // how it keeps to exactly-once
	drain     *draining     // nil but where it works for Resize

	resizeHook func(what string) error // what a test does before a step of Resize
	clock      func() time.Time        // what leases read; nil = time.Now
}

// EngineFactory makes an engine with a pool of slots for a network. A shard
// calls it at its start and whenever it needs a larger pool.
type EngineFactory func(net *reservoir.Network, slots int) (reservoir.Engine, error)

// Run is the live stage: it creates or checks the job's NATS streams, joins
// the job's workers, and works on its share of the partitions until ctx ends.
// Then it finishes what is in hand, stores its states, gives its partitions up
// and returns nil. A partition that must not continue (data lost or changed, a
// state that does not come out as it was) is stopped with a line in the log;
// the others continue. Run returns an error when nothing of its share is left,
// when it cannot start, when an engine fails, and at its end for partitions
// it has stopped. All goroutines have ended by then.
//
// A lost engine takes states with it that nothing but the snapshots and the
// input has. With a Fallback, the worker then leaves the job as one that was
// killed would, and starts again with engines of Fallback. So it does, on new
// connections, where the client has closed one for good.
func (s *Stage) Run(ctx context.Context) error {
	first := *s
	if s.Ready != nil {
		first.Ready = sync.OnceFunc(s.Ready)
	}
	for {
		began := time.Now()
		err := first.attempt(ctx)
		says := ""
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, reservoir.ErrLost) && s.Fallback != nil:
			first.NewEngine = s.Fallback
			says = "engine lost: its partitions are restored from their snapshots on another engine"
		case errors.Is(err, ErrOtherInput) && s.Config.Input.IsPlain():
			continue // another worker has begun the job meanwhile: what it stored is taken over
		case errors.Is(err, errBegun):
			continue // likewise
		case errors.Is(err, errClosed):
			says = "a NATS connection was closed for good, starting again on new connections from the last snapshots: the server's log says why it was closed"
		default:
			return err
		}
		if s.Log != nil {
			s.Log.Error(says, "err", err)
		}
		if errors.Is(err, errClosed) && store.Pause(ctx, max(time.Second, reopenWait-time.Since(began))) != nil {
			return nil // stopped meanwhile
		}
	}
}

// reopenWait is how far apart beginnings on new connections are at least.
const reopenWait = 10 * time.Second

// attempt is Run with the engines of NewEngine.
func (s *Stage) attempt(ctx context.Context) error {
	r, err := s.prepare()
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting
		}
		return err
	}
	for _, one := range r.shards { // before anybody reads them
		one.Clock.Start()
	}
	r.shown.running.Store(r)
	defer context.AfterFunc(ctx, func() { r.stopping.Store(true) })()
	return r.work(ctx)
}

// work starts everything and returns when everything has ended, in the order
// of the data: consumers, shards, emitters.
func (r *run) work(ctx context.Context) error {
	var once sync.Once
	var failure error
	// An engine's failure ends the shards at once; partitions end in order
	// before the shards do.
	workers, end := context.WithCancel(context.WithoutCancel(ctx))
	quit := func() {
		r.stopping.Store(true)
		end()
	}
	defer quit()
	r.workers, r.owners.Shards = workers, workers
	fail := func(err error) { once.Do(func() { failure = err }); quit() }
	// Last commits may finish after ctx has ended, but not for ever.
	last, stopNow := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNow()
	r.cut = stopNow
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(r.cfg.StopTimeout, stopNow)
		context.AfterFunc(last, func() { late.Stop() })
	})()

	var wg sync.WaitGroup
	for i, s := range r.shards {
		e := r.emitters[i]
		s.StoreRows(r.server.Snaps, last)
		out, free := make(chan *shard.Batch, shard.BatchesPerShard), make(chan *shard.Batch, shard.BatchesPerShard)
		for range shard.BatchesPerShard {
			free <- shard.NewBatch(r.perShard())
		}
		wg.Go(guard(fail, func() error { return s.Run(workers, out, free) }))
		wg.Go(guard(fail, func() error { e.Run(last, out, free); return nil }))
	}
	err := r.manage(ctx, last)
	quit()
	wg.Wait()
	return errors.Join(failure, err)
}

// guard turns a panic of a goroutine of ours into an error that stops the
// stage in order.
func guard(fail func(error), f func() error) func() {
	return func() {
		defer func() {
			if p := recover(); p != nil {
				fail(fmt.Errorf("pipeline: BUG: %v\n%s", p, debug.Stack()))
			}
		}()
		if err := f(); err != nil {
			fail(err)
		}
	}
}
