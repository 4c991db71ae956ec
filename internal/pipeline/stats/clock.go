package stats

import (
	"sync/atomic"
	"time"
)

// Doing is what a shard does with its time.
type Doing int64

const (
	Busy    Doing = iota // it decodes, computes, looks after its partitions
	Waiting              // all of its batches are under way: the server has not stored what was predicted
	Idle                 // there is no message, or it waits for more of them (stage.latency)
)

// Clock adds up how long one goroutine has done what. That goroutine alone calls Start
// and Turn, which take no lock and no memory; every goroutine may call Read. The zero
// value has not started.
type Clock struct {
	began time.Time
	now   atomic.Int64 // since when (ns after began) and what it does: since<<2 | doing; 0 = not started
	spent [3]atomic.Int64
}

// StartClock begins, busy. It is called before any other goroutine reads.
func (c *Clock) StartClock() { c.began = time.Now() }

// TurnTo says that something else is done from now on.
func (c *Clock) TurnTo(to Doing) {
	if c.began.IsZero() { // a shard by itself, as in tests
		return
	}
	t := int64(time.Since(c.began))
	old := c.now.Swap(t<<2 | int64(to))
	c.spent[old&3].Add(t - old>>2)
}

// Read is how long each was done, what is going on included. The three may be off by
// the turn that is made meanwhile.
func (c *Clock) Read() (spent [3]time.Duration) {
	if c.began.IsZero() {
		return
	}
	for i := range spent {
		spent[i] = time.Duration(c.spent[i].Load())
	}
	now := c.now.Load()
	spent[now&3] += max(0, time.Since(c.began)-time.Duration(now>>2))
	return
}
