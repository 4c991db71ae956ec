package bench

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// job is one trial or draw.
type job struct {
	work float64
	do   func(context.Context) error
}

// all does the jobs on all threads, the largest first so that they end
// together, and stops at the first error.
func (r *runner) all(ctx context.Context, jobs []job) error {
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.work, a.work) })
	return r.inOrder(ctx, jobs)
}

// inOrder begins the jobs in their order.
func (r *runner) inOrder(ctx context.Context, jobs []job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(r.Threads, len(jobs)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := jobs[i].do(ctx); err != nil {
					cancel(err)
					return
				}
				r.advance(jobs[i].work)
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// advance tells of work done.
func (r *runner) advance(work float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += work
	if r.Progress != nil {
		r.Progress(int64(r.done), int64(max(r.done, r.total)), "gigaflops of trials and draws")
	}
}
