package stats

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Server is the server's information about a job's input and output.
type Server struct {
	Behind                   atomic.Int64 // replicas that are not current
	Consumers, ConsumerLimit atomic.Int64 // of the NATS stream with less room
}

// Counters are a running stage's counters: totals since the start, and current values
// (the last int64 group). Each is updated by the goroutine that does the counted work,
// without a lock. The zero value is ready.
type Counters struct {
	Messages, Rows, Bytes, Duplicates, Gaps, Incarnations, Held                          atomic.Uint64
	Predictions, Early, Commits, Retries, Batches, Replayed, Restores                    atomic.Uint64
	Resets, Forgotten, New, Abandoned, Idle, Spilled, Fetched, Reordered, Claims, Fenced atomic.Uint64
	Deferred, Losses, Contradictions, FarTimes                                           atomic.Uint64
	Snapshots, SnapshotBytes                                                             atomic.Uint64
	Spent                                                                                Spent
	Answered                                                                             atomic.Int64 // time of the last answered sample, ns since 1970; 0 = never
	Streams, Slots, Replaying, Owned, Stopped, Away, Parked                              atomic.Int64
	Server                                                                               Server
	DeadLetters                                                                          [len(wire.ReasonNames)]atomic.Uint64
	Integrity                                                                            [len(Integrities)]atomic.Uint64
	Flagged                                                                              [len(outcome.FlagNames)]atomic.Uint64
	BatchRows, StepTime, CommitTime                                                      Histogram

	Classes atomic.Pointer[classCounts] // nil before a run
}

// Spent is the time spent on each kind of work, in ns.
type Spent struct{ Decode, Engine, Commit, Snapshot atomic.Int64 }

// ClearNow clears the current values: a run has ended.
func (c *Counters) ClearNow() {
	for _, now := range []*atomic.Int64{&c.Streams, &c.Slots, &c.Away, &c.Parked, &c.Replaying, &c.Owned, &c.Stopped} {
		now.Store(0)
	}
}

// classCounts counts the predictions of each class of a run's readout.
type classCounts struct {
	Labels []string
	N      []atomic.Uint64
}

// SetClasses makes room for the classes of a run. Counters of equal classes of the
// previous run continue.
func (c *Counters) SetClasses(labels []string) {
	if k := c.Classes.Load(); k == nil || !slices.Equal(k.Labels, labels) {
		c.Classes.Store(&classCounts{labels, make([]atomic.Uint64, len(labels))})
	}
}

// Integrities are the words of outcome.Flag.Integrity.
var Integrities = [...]string{
	outcome.IntegrityComplete, outcome.IntegrityEarly, outcome.IntegrityIdle, outcome.IntegrityHeld,
	outcome.IntegrityPoisonSkipped, outcome.IntegrityGap, outcome.IntegrityUnlike, outcome.IntegrityUnknown,
}

// integrityOf is the place of each combination of flags in integrities.
var integrityOf = func() (at [1 << len(outcome.FlagNames)]uint8) {
	for f := range at {
		at[f] = uint8(slices.Index(Integrities[:], outcome.Flag(f).Integrity()))
	}
	return at
}()

// CountGrades counts stored predictions and their named flags.
func (c *Counters) CountGrades(preds []codec.Prediction) {
	var n [len(Integrities)]uint64
	var flagged [len(outcome.FlagNames)]uint64
	for i := range preds {
		f := preds[i].Flags
		n[integrityOf[f]]++
		for ; f != 0; f &= f - 1 {
			flagged[bits.TrailingZeros32(uint32(f))]++
		}
	}
	if k := c.Classes.Load(); k != nil {
		for i := range preds {
			k.N[preds[i].Class].Add(1)
		}
	}
	for i, n := range n {
		if n > 0 {
			c.Integrity[i].Add(n)
		}
	}
	for i, n := range flagged {
		if n > 0 {
			c.Flagged[i].Add(n)
		}
	}
	c.Predictions.Add(uint64(len(preds)))
}
