package figures

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Options configure a computation; no result depends on them.
type Options struct {
	Threads  int                                  // 0: all cores
	Progress func(done, total int64, what string) // may be nil; called from several goroutines
}

// forEach calls f for 0 to n-1 from several goroutines, and stops at the first error or
// when ctx ends. The results of f must depend only on its index.
func (o Options) forEach(ctx context.Context, n int, what string, f func(ctx context.Context, i int) error) error {
	threads := o.Threads
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range min(threads, n) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := f(ctx, int(i)); err != nil {
					cancel(err)
					return
				}
				if d := done.Add(1); o.Progress != nil {
					o.Progress(d, int64(n), what)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
