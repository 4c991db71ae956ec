package cpu

import (
	"github.com/eusn-stream/eusn-stream/reservoir"
	"math"
	"sync"
	"sync/atomic"
)

// call is the data shared by the workers of an engine while it advances one round.
type call struct {
	inputs  []float32
	runs    []reservoir.Run
	scores  []float32
	judged  []float32 // see vectorPool
	emits   bool      // some runs do,
	score   []int32   // and how many before each
	items   []item
	threads int // number that may work on the items
}

// itemWorker does items of work, one at a time, with its own buffers.
type itemWorker interface {
	// advance does one item; next is the probable next item of this worker, or
	// nil.
	advance(c *call, it, next *item)
	// finish is called when the worker has no more items of a round.
	finish(c *call)
	// forget is called on the caller's worker before other code may change states.
	forget()
}

// gang is the worker threads of one engine: they live as long as the engine and
// sleep between calls. Items of one round are independent, so any worker may
// take any item; each item is taken once. The caller takes items like every
// worker and waits only for items in progress elsewhere: a helper that wakes up
// late, or after the work is done, costs the caller nothing.
type gang struct {
	workers  []itemWorker // the first belongs to the caller
	call     call         // read by the worker of an item, while the item is in progress
	left     atomic.Int32
	undone   atomic.Int32
	wake     chan struct{} // one token per worker that shall look for items
	finished chan struct{} // by a helper, that the last item is done
	ended    sync.WaitGroup
}

func (g *gang) start(threads int, newWorker func() itemWorker) {
	for range threads {
		g.workers = append(g.workers, newWorker())
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

// stop ends the threads. A second call does nothing.
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
		g.call = *c
		for i := range c.items {
			g.call.advance(g.workers[0], i)
		}
		g.workers[0].finish(&g.call)
	} else {
		g.deal(c, helpers)
		if !g.take(g.workers[0]) {
			<-g.finished
		}
	}
	g.call = call{}
}

// deal lays out the items of a round for every worker to take, and wakes
// helpers.
func (g *gang) deal(c *call, helpers int) {
	g.forget()
	g.call = *c
	g.undone.Store(int32(len(c.items)))
	g.left.Store(int32(len(c.items)))
	for range helpers {
		select {
		case g.wake <- struct{}{}:
		default: // a waiting token is enough
		}
	}
}

// forget announces that other code than the caller's worker may change states.
func (g *gang) forget() { g.workers[0].forget() }

// take does items until none is left, and reports whether this worker has
// finished the last item. All of its items are in progress until it has
// finished.
func (g *gang) take(w itemWorker) (last bool) {
	items := int32(0)
	for {
		k := int(g.left.Add(-1))
		if k < 0 {
			break
		}
		g.call.advance(w, len(g.call.items)-1-k)
		items++
	}
	if items == 0 {
		return false
	}
	w.finish(&g.call)
	return g.undone.Add(-items) == 0
}

// advance has a worker do item i.
func (c *call) advance(w itemWorker, i int) {
	var next *item
	if k := i + c.threads; k < len(c.items) {
		next = &c.items[k]
	}
	w.advance(c, &c.items[i], next)
}

// list returns a tile's runs in sequence, in buffer if they are scattered.
func (c *call) list(t *tile, buffer []reservoir.Run) []reservoir.Run {
	if t.list != nil {
		return t.list
	}
	for i, k := range t.runs {
		buffer[i] = c.runs[k]
	}
	return buffer[:len(t.runs)]
}

// setPrevious keeps a run's last sample for the next difference.
func (c *call) setPrevious(previous []uint32, r *reservoir.Run) {
	if r.From == r.To {
		if r.Reset {
			clear(previous)
		}
		return
	}
	n := len(previous)
	for i, x := range c.inputs[(int(r.To)-1)*n : int(r.To)*n] {
		previous[i] = math.Float32bits(x)
	}
}
