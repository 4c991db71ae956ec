package reservoir

import (
	"sync"
	"sync/atomic"
)

// call is what the workers of an engine share while it advances one round.
type call struct {
	inputs  []float32
	runs    []Run
	scores  []float32
	score   []int32 // emitting runs before each run
	items   []item
	threads int // that work on them
}

// gang is the worker threads of one engine: they live as long as it does and
// sleep between calls. Items of one round are independent, so who takes which
// does not matter; each is taken once.
type gang struct {
	workers []*worker // the first belongs to the caller
	call    call
	next    atomic.Int32
	wake    chan struct{} // one token per worker that shall help
	done    sync.WaitGroup
	ended   sync.WaitGroup
}

func (g *gang) start(v *Vector, threads int) {
	for range threads {
		g.workers = append(g.workers, newWorker(v))
	}
	wake := make(chan struct{}, threads)
	g.wake = wake
	for _, w := range g.workers[1:] {
		g.ended.Go(func() {
			for range wake {
				g.take(w)
				g.done.Done()
			}
		})
	}
}

// stop ends the threads. It may be called again.
func (g *gang) stop() {
	if g.wake != nil {
		close(g.wake)
		g.wake = nil
	}
	g.ended.Wait()
}

// do has every item of a round done.
func (g *gang) do(c call) {
	helpers := min(len(g.workers), len(c.items)) - 1
	c.threads = helpers + 1
	g.call = c
	if helpers <= 0 {
		for i := range c.items {
			g.advance(g.workers[0], i)
		}
		g.call = call{}
		return
	}
	g.next.Store(0)
	for range helpers {
		g.done.Add(1)
		g.wake <- struct{}{}
	}
	g.take(g.workers[0])
	g.done.Wait()
	g.call = call{}
}

func (g *gang) take(w *worker) {
	for {
		i := int(g.next.Add(1)) - 1
		if i >= len(g.call.items) {
			return
		}
		g.advance(w, i)
	}
}

// advance has a worker do item i.
func (g *gang) advance(w *worker, i int) {
	var next *item
	if k := i + g.call.threads; k < len(g.call.items) {
		next = &g.call.items[k]
	}
	w.advance(&g.call, &g.call.items[i], next)
}
