package service

import (
	"context"
	"sync"
	"time"
)

// state is the state of a service as Windows defines it.
type state int

const (
	starting state = iota
	running
	stopping
)

// progress is one report to the manager. A starting or stopping service must increase its
// checkpoint within the hint; otherwise the manager assumes that the service hangs.
type progress struct {
	state      state
	checkpoint uint32
	hint       time.Duration
}

const (
	reportEvery = 2 * time.Second
	reportHint  = 30 * time.Second // long enough for an overloaded machine
)

// supervise runs a program and reports its state to the manager. Closing stop requests the end
// of the program. It returns the exit code; after a request to end, the code interrupted counts
// as 0.
func supervise(ctx context.Context, stop <-chan struct{}, report func(progress), patience time.Duration, interrupted int, program func(context.Context) int) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	becameReady := (<-chan struct{})(ready)
	ctx = context.WithValue(ctx, readyKey{}, sync.OnceFunc(func() { close(ready) }))
	ended := make(chan int, 1)
	go func() { ended <- program(ctx) }()
	current := progress{state: starting, checkpoint: 1, hint: reportHint}
	report(current)
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	late := time.After(patience)
	reportRunning := func() {
		if current.state == starting {
			current = progress{state: running}
			report(current)
		}
	}
	for stopped := false; ; {
		select {
		case code := <-ended:
			if stopped && code == interrupted {
				return 0
			}
			return code
		case <-becameReady:
			becameReady = nil
			reportRunning()
		case <-late:
			reportRunning()
		case <-stop:
			stop, stopped = nil, true
			current = progress{state: stopping, checkpoint: 1, hint: reportHint}
			report(current)
			cancel()
		case <-tick.C:
			if current.state != running {
				current.checkpoint++
				report(current)
			}
		}
	}
}
