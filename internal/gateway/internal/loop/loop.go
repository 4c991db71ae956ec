// Package loop runs what a client of a device does until it is closed.
package loop

import (
	"context"
	"sync"
)

// Run runs f in a goroutine. end ends its context, and waits for it.
func Run(f func(context.Context)) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { f(ctx) })
	return func() {
		stop()
		ended.Wait()
	}
}
