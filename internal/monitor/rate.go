package monitor

import (
	"math"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// NoTime stands for the time of a sample that has none.
const NoTime = math.MinInt64

// JumpFactor is how many times longer than usual the time between two samples
// of a sequence may be: than the longest in training (in all but 2 % of its sequences) where that is known, else
// than the time that the rate gives. One lost sample makes it twice as long.
const JumpFactor = 1.5

// DefaultTolerance is the share by which a rate may differ from the model's:
// more than clocks differ, and less than changes what most signals look like.
const DefaultTolerance = 0.05

// wentBack is the longest interval of a sequence in which time went back.
const wentBack = math.MaxInt64

// Clock is what a stream remembers of the times of one open sequence: enough to
// say how fast its samples came. All of it is whole nanoseconds.
type Clock struct {
	First   int64  // time of the first sample, ns; NoTime: not known, as where a sample of the sequence has no time
	Longest int64  // the longest interval of two samples, ns; math.MaxInt64 where time went back
	Count   uint32 // intervals since First; behind math.MaxUint32 of them both begin again
}

// Begin starts with a sequence's first sample, whose time may be NoTime.
func (c *Clock) Begin(time int64) { *c = Clock{First: time} }

// Take continues with the next samples of the sequence. before is the time of the
// sample before them.
func (c *Clock) Take(times []int64, before int64) {
	if c.First == NoTime {
		return
	}
	for _, t := range times {
		d := t - before
		switch {
		case t == NoTime:
			c.Lose()
			return
		case t < before || d < 0: // an interval of more than 292 years is none either
			d = wentBack
		}
		if c.Count == math.MaxUint32 { // of an endless sequence, after two days at 25.6 kHz
			c.First, c.Count = before, 0
		}
		c.Longest, c.Count = max(c.Longest, d), c.Count+1
		before = t
	}
}

// Lose notes that the sequence's next samples have no times.
func (c *Clock) Lose() { *c = Clock{First: NoTime} }

// Began is the time of the sequence's first sample, which is its earliest; NoTime
// where that is not known, or where time went back.
func (c *Clock) Began() int64 {
	if c.Longest == wentBack {
		return NoTime
	}
	return c.First
}

// Period is the mean time between two samples of a sequence whose last sample
// has the time last, ns; 0 where that is not known, or where time went back.
func (c *Clock) Period(last int64) float64 {
	if c.First == NoTime || last == NoTime || c.Count == 0 || c.Longest == wentBack {
		return 0
	}
	return float64(uint64(last)-uint64(c.First)) / float64(c.Count)
}

// Rate holds a sequence's times against the rate that a model was trained at.
// The zero value knows none.
type Rate struct {
	hertz     float64 // 0: nothing is off
	longest   float64 // interval that is not a jump, ns
	tolerance float64 // share of the time
}

// NewRate is that of a model. A tolerance of 0 or less, or a model without a
// rate, finds nothing off.
func NewRate(t reservoir.Training, tolerance float64) Rate {
	if !(tolerance > 0) || t.Rate == 0 {
		return Rate{}
	}
	return Rate{hertz: t.Rate, longest: JumpFactor * max(1e9/t.Rate, float64(t.LongestInterval)), tolerance: tolerance}
}

// Off reports whether a sequence's samples came at another rate, or with a jump
// in time. last is the time of its last sample. Where a time is missing, or
// there is one sample, it cannot be known, and is not off.
//
// Let n be the number of intervals and d the time from the first sample to the
// last, in intervals of the model's rate. The rate is off where |d - n| is more
// than tolerance*n + 1: the 1 is for times that are rounded, and for sequences
// of few samples. After 2^32 - 1 intervals, n and d begin again from 0. There is a jump where an interval is longer than JumpFactor
// times the longest in training, or of the rate; and where time went back.
func (r Rate) Off(c *Clock, last int64) bool {
	if r.hertz == 0 || c.First == NoTime || last == NoTime || c.Count == 0 {
		return false
	}
	if c.Longest == wentBack || float64(c.Longest) > r.longest {
		return true
	}
	n := float64(c.Count)
	d := float64(float64(uint64(last)-uint64(c.First))*r.hertz) / 1e9
	return math.Abs(d-n) > float64(r.tolerance*n)+1
}
