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
	emits   bool    // some runs do,
	score   []int32 // and how many before each
	items   []item
	threads int // that may work on them
}

// gang is the worker threads of one engine: they live as long as it does and
// sleep between calls. Items of one round are independent, so who takes which
// does not matter; each is taken once. The caller takes items like everybody
// else and waits only for those that others have in hand: a helper that wakes
// up late, or for work that is done, costs it nothing.
type gang struct {
	workers  []*worker // the first belongs to the caller
	call     call      // read by who has taken an item, while it is in hand
	left     atomic.Int32
	undone   atomic.Int32
	wake     chan struct{} // one token per worker that shall look for items
	finished chan struct{} // by a helper, that the last item is done
	ended    sync.WaitGroup
}

func (g *gang) start(v *Vector, threads int) {
	for range threads {
		g.workers = append(g.workers, newWorker(v))
	}
	wake := make(chan struct{}, threads)
	g.wake, g.finished = wake, make(chan struct{}, 1)
	for _, w := range g.workers[1:] {
		g.ended.Go(func() {
			for range wake {
				if g.take(w) {
					g.finished <- struct{}{}
				}
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
func (g *gang) do(c *call) {
	helpers := min(len(g.workers), c.threads, len(c.items)) - 1
	c.threads = helpers + 1
	if helpers <= 0 {
		for i := range c.items {
			c.advance(g.workers[0], i)
		}
		return
	}
	g.deal(c, helpers)
	if !g.take(g.workers[0]) {
		<-g.finished
	}
	g.call = call{}
}

// deal lays out the items of a round for every worker to take, and wakes
// helpers.
func (g *gang) deal(c *call, helpers int) {
	g.workers[0].v.forget()
	g.call = *c
	g.undone.Store(int32(len(c.items)))
	g.left.Store(int32(len(c.items)))
	for range helpers {
		select {
		case g.wake <- struct{}{}:
		default: // a token that is not taken yet does as well
		}
	}
}

// take does items until none is left to take, and reports whether this worker
// has finished the last one.
func (g *gang) take(w *worker) (last bool) {
	for {
		k := int(g.left.Add(-1))
		if k < 0 {
			return last
		}
		g.call.advance(w, len(g.call.items)-1-k)
		last = g.undone.Add(-1) == 0
	}
}

// advance has a worker do item i.
func (c *call) advance(w *worker, i int) {
	var next *item
	if k := i + c.threads; k < len(c.items) {
		next = &c.items[k]
	}
	w.advance(c, &c.items[i], next)
}
