package offline

import (
	"context"
	"sync"
)

// collectBlock is the number of sequences whose features are taken at a time; callPoints bounds the sequences of an
// engine call, so that with two blocks of room the engine on the first block never waits.
const (
	collectBlock = 768
	callPoints   = 256
)

// collector hands on the features of sequences in order, while engines compute in any order. Engines run ahead by
// little more than a block, and then wait. The engine that completes a block hands the block on, while other engines
// continue. Safe for concurrent use.
type collector struct {
	take     func(features []float32) error // of the next sequences, one call after the other
	features int
	total    int

	mu     sync.Mutex
	moved  *sync.Cond // base or err
	ring   []float32  // features of sequence i in row i modulo the blocks' rows
	filled []int      // rows of each block that are there
	base   int        // the first sequence not handed on
	taking bool
	err    error
}

// newCollector ends when ctx does: then no engine waits any longer.
func newCollector(ctx context.Context, features, total, threads int, take func(features []float32) error) *collector {
	blocks := 2 + threads*callPoints/collectBlock
	blocks = min(blocks, (total+collectBlock-1)/collectBlock)
	c := &collector{
		take: take, features: features, total: total,
		ring: make([]float32, min(total, blocks*collectBlock)*features), filled: make([]int, blocks),
	}
	c.moved = sync.NewCond(&c.mu)
	context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	return c
}

// collectorBytes is the memory of a collector.
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
	for !c.taking && c.err == nil && c.base < c.total {
		block := c.base % rows / collectBlock
		n := min(collectBlock, c.total-c.base)
		if c.filled[block] < n {
			break
		}
		c.handOn(block, n)
	}
	return c.err
}

// wait waits for room for sequence i.
func (c *collector) wait(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && i >= c.base+len(c.filled)*collectBlock {
		c.moved.Wait()
	}
	return c.err
}

// handOn hands a complete block on, and lets go of the lock meanwhile.
func (c *collector) handOn(block, n int) {
	c.taking = true
	c.mu.Unlock()
	from := block * collectBlock * c.features
	err := c.take(c.ring[from : from+n*c.features])
	c.mu.Lock()
	c.taking = false
	if err != nil && c.err == nil {
		c.err = err
	}
	c.filled[block] = 0
	c.base += n
	c.moved.Broadcast()
}
