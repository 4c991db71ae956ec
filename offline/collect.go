package offline

import (
	"context"
	"sync"

	"github.com/eusn-stream/eusn-stream/readout"
)

// collectBlock is how many sequences' features enter the learner at a time;
// callPoints bounds how many one engine call brings, so that with two blocks
// of room the engine that works on the first of them never waits.
const (
	collectBlock = 768
	callPoints   = 256
)

// collector gives a learner the features of sequences in order, in whatever order
// engines compute them. Engines run ahead by little more than a block, and then
// wait. The engine that completes a block adds it, while the others continue.
// Safe for concurrent use.
type collector struct {
	learner  *readout.Learner
	features int
	total    int
	cast     *forecast

	mu     sync.Mutex
	moved  *sync.Cond // base or err
	ring   []float32  // features of sequence i in row i modulo the blocks' rows
	filled []int      // rows of each block that are there
	base   int        // the first sequence not in the learner
	adding bool
	err    error
}

// newCollector ends when ctx does: then no engine waits any longer.
func newCollector(ctx context.Context, l *readout.Learner, features, total, threads int, cast *forecast) *collector {
	blocks := 2 + threads*callPoints/collectBlock
	blocks = min(blocks, (total+collectBlock-1)/collectBlock)
	c := &collector{
		learner: l, features: features, total: total, cast: cast,
		ring: make([]float32, min(total, blocks*collectBlock)*features), filled: make([]int, blocks),
	}
	c.moved = sync.NewCond(&c.mu)
	context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	return c
}

// collectorBytes is what a collector holds.
func collectorBytes(features, total, threads int) int64 {
	return 4 * int64(features) * int64(min(total, (2+threads*callPoints/collectBlock)*collectBlock))
}

func (c *collector) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && err != nil {
		c.err = err
		c.moved.Broadcast()
	}
}

// put lets fill write the features of sequence i.
func (c *collector) put(i int, fill func(row []float32) error) error {
	if err := c.wait(i); err != nil {
		return err
	}
	rows := len(c.filled) * collectBlock
	at := i % rows * c.features
	if err := fill(c.ring[at : at+c.features]); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.filled[i%rows/collectBlock]++
	for !c.adding && c.err == nil && c.base < c.total {
		block := c.base % rows / collectBlock
		n := min(collectBlock, c.total-c.base)
		if c.filled[block] < n {
			break
		}
		c.add(block, n)
	}
	return c.err
}

// wait returns when there is room for sequence i.
func (c *collector) wait(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && i >= c.base+len(c.filled)*collectBlock {
		c.moved.Wait()
	}
	return c.err
}

// add puts a complete block into the learner, and lets go of the lock
// meanwhile.
func (c *collector) add(block, n int) {
	c.adding = true
	c.mu.Unlock()
	c.cast.adding()
	from := block * collectBlock * c.features
	err := c.learner.Add(c.ring[from : from+n*c.features])
	c.cast.added(n)
	c.mu.Lock()
	c.adding = false
	if err != nil && c.err == nil {
		c.err = err
	}
	c.filled[block] = 0
	c.base += n
	c.moved.Broadcast()
}
