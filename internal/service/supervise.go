package service

import (
	"context"
	"sync"
	"time"
)

// state is what a service is, in the words of Windows.
type state int

const (
	starting state = iota
	running
	stopping
)

// progress is what the manager is told. While a service starts or stops, a checkpoint that
// grows says that it still does something, and hint when the next one comes at the latest:
// without that the manager takes it for dead.
type progress struct {
	state      state
	checkpoint uint32
	hint       time.Duration
}

const (
	tellEvery = 2 * time.Second
	tellHint  = 30 * time.Second // a machine that is short of time is not a service that hangs
)

// supervise runs a program and tells the manager how it is. The program is asked to end when
// stop is closed. It returns its exit code; an end that was asked for and came as interrupted
// is one as it should be.
func supervise(ctx context.Context, stop <-chan struct{}, tell func(progress), patience time.Duration, interrupted int, program func(context.Context) int) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	became := (<-chan struct{})(ready)
	ctx = context.WithValue(ctx, readyKey{}, sync.OnceFunc(func() { close(ready) }))
	ended := make(chan int, 1)
	go func() { ended <- program(ctx) }()
	now := progress{state: starting, checkpoint: 1, hint: tellHint}
	tell(now)
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	late := time.After(patience)
	run := func() {
		if now.state == starting {
			now = progress{state: running}
			tell(now)
		}
	}
	for asked := false; ; {
		select {
		case code := <-ended:
			if asked && code == interrupted {
				return 0
			}
			return code
		case <-became:
			became = nil
			run()
		case <-late:
			run()
		case <-stop:
			stop, asked = nil, true
			now = progress{state: stopping, checkpoint: 1, hint: tellHint}
			tell(now)
			cancel()
		case <-tick.C:
			if now.state != running {
				now.checkpoint++
				tell(now)
			}
		}
	}
}
