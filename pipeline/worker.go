package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Worker is one worker of a job. Fields other than Job are optional.
type Worker struct {
	Job
	// Fallback makes engines after an engine of NewEngine, or of Fallback, is lost
	// (reservoir.ErrLost), for example a failed GPU: repeated calls must finally return
	// engines that are not lost, or an error. Without Fallback, a loss ends the run.
	Fallback EngineFactory
	Counters *Counters // counted into, for the caller to read
	Ready    func()    // called once when the worker reads its first share of the partitions
	// NewPartitions is the number of partitions of a new job if Config leaves it open;
	// 0 = 16.
	NewPartitions int
	// Carry is the share of predictions, 0 to 1, that carry their features, as a
	// readout reads them, for training after the samples are gone (package
	// internal/learn). The features are published to a separate NATS stream. The
	// selection depends only on stream, sequence number and row. 0 = none.
	Carry float64

	tracer    trace.Tracer    // selects traced messages, and receives their spans; nil = none
	apart     time.Duration   // how long partitions read with their own consumers after a common reading; 0 = owner.ApartTime; tests
	shadowing time.Duration   // how long a commit waits for shadows; 0 = store.ShadowPatience; tests
	guard     safeguard       // disabled checks of exactly-once
	drain     *bridge.Drained // nil except during drainInput
}

// Run works on a job: it creates or checks the job's NATS streams, joins the job's
// workers, and works on its share of the partitions until ctx ends. Then Run finishes
// pending work, stores all states, releases all partitions and returns nil. A partition
// that must not continue (lost or changed data, a state with a wrong digest) is stopped
// with a line in the log; other partitions continue. Run returns an error when nothing
// of its share is left, when it cannot start, when an engine fails, and at its end for
// stopped partitions. All goroutines have ended by then.
//
// A lost engine loses states that only the snapshots and the input can restore. With a
// Fallback, the worker then leaves the job like a killed worker, and restarts with
// engines of Fallback. It also restarts, with new connections, after the client has
// closed a connection permanently.
func (w *Worker) Run(ctx context.Context) error {
	first := *w
	if w.Ready != nil {
		first.Ready = sync.OnceFunc(w.Ready)
	}
	for {
		began := time.Now()
		err := first.attemptRun(ctx)
		says := ""
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, reservoir.ErrLost) && w.Fallback != nil:
			first.NewEngine = w.Fallback
			says = "engine lost: its partitions are restored from their snapshots on another engine"
		case errors.Is(err, wire.ErrOtherInput) && w.Config.Input.IsPlain():
			continue // another worker has begun the job meanwhile: its data is used
		case errors.Is(err, errBegun):
			continue // same reason
		case errors.Is(err, errClosed):
			says = "a NATS connection was closed for good, starting again on new connections from the last snapshots: the server's log says why it was closed"
		default:
			return err
		}
		if w.Log != nil {
			w.Log.Error(says, "err", err)
		}
		if errors.Is(err, errClosed) && store.Pause(ctx, max(time.Second, reopenWait-time.Since(began))) != nil {
			return nil // stopped meanwhile
		}
	}
}

// reopenWait is how far apart beginnings on new connections are at least.
const reopenWait = 10 * time.Second

// attemptRun is Run with the engines of NewEngine.
func (w *Worker) attemptRun(ctx context.Context) error {
	r, err := w.prepareRun()
	if err != nil {
		return err
	}
	defer r.closeRun()
	if err := r.openRun(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting
		}
		return err
	}
	for _, one := range r.shards { // before any reader
		one.Clock.StartClock()
	}
	r.shown.running.Store(r)
	defer context.AfterFunc(ctx, func() { r.stopping.Store(true) })()
	return r.workUntil(ctx)
}

// workUntil starts everything and returns when everything has ended, in the order
// of the data: consumers, shards, emitters.
func (r *run) workUntil(ctx context.Context) error {
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
		wg.Go(guardPanic(fail, func() error { return s.Run(workers, out, free) }))
		wg.Go(guardPanic(fail, func() error { e.Run(last, out, free); return nil }))
	}
	err := r.managePartitions(ctx, last)
	quit()
	wg.Wait()
	return errors.Join(failure, err)
}

// guardPanic turns a panic of a goroutine into an error that stops the stage in order.
func guardPanic(fail func(error), f func() error) func() {
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
