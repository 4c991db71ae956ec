package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// drainWatch is the interval of checks whether all input is answered.
const drainWatch = 20 * time.Millisecond

// drainInput works on the partitions of a job in change until they have answered all input
// up to a message, and their states are stored. progress receives the number of
// finished partitions.
func (w *Worker) drainInput(ctx context.Context, d bridge.Drained, progress func(done, all int)) error {
	draining := *w
	draining.drain = &d
	c := &draining.Config
	c.Partitions, c.Idle, c.Forget = d.Partitions, 0, 0 // no end events: they would come after the cut
	c.Shards = min(c.Shards, d.Partitions)
	r, err := draining.prepareRun()
	if err != nil {
		return err
	}
	defer r.closeRun()
	if err := r.openRun(ctx); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer stop()
		r.watchDrain(work, d.Partitions, progress)
	}()
	defer context.AfterFunc(work, func() { r.stopping.Store(true) })()
	err = r.workUntil(work)
	stop()
	<-watched
	return errors.Join(ctx.Err(), err)
}

// watchDrain returns when this worker's share is drained, or a partition in it has
// stopped.
func (r *run) watchDrain(ctx context.Context, partitions int, progress func(done, all int)) {
	told := -1
	for store.Pause(ctx, drainWatch) == nil {
		v := r.view.Load()
		if v == nil {
			continue
		}
		done := 0
		for _, p := range v.share {
			if t := v.owned[p]; t == nil {
				continue
			} else if ok, err := t.IsDrained(ctx); err == nil && ok {
				done++
			}
		}
		if done > told {
			told = done
			progress(done, partitions)
		}
		// Other partitions belong to a killed drain, whose lease has not ended, or to a
		// parallel drain.
		if len(v.share) > 0 && done == len(v.share) || len(v.stopped) > 0 {
			return
		}
	}
}
