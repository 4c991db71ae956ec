package stats

import (
	"sync/atomic"
	"time"
)

// Doing is a shard's activity.
type Doing int64

const (
	Busy    Doing = iota // decoding, computing, maintaining its partitions
	Waiting              // all of its batches are in publication: the server has not stored the predictions
	Idle                 // no message, or waiting for more messages (stage.latency)
)

// Clock measures the time that one goroutine spends on each activity. Only that
// goroutine calls StartClock and TurnTo, which take no lock and no memory; every
// goroutine may call Read. The zero value has not started.
type Clock struct {
	began time.Time
	now   atomic.Int64 // since when (ns after began) and the activity: since<<2 | doing; 0 = not started
	spent [3]atomic.Int64
}

// StartClock begins with Busy. Call it before any other goroutine reads.
func (c *Clock) StartClock() { c.began = time.Now() }

// TurnTo begins another activity.
func (c *Clock) TurnTo(to Doing) {
	if c.began.IsZero() { // a shard by itself, as in tests
		return
	}
	t := int64(time.Since(c.began))
	old := c.now.Swap(t<<2 | int64(to))
	c.spent[old&3].Add(t - old>>2)
}

// Read returns the time of each activity, including the current activity. The sums may
// be off by a concurrent turn.
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
