package monitor

import (
	"math"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// NoTime is the time of a sample without a time.
const NoTime = math.MinInt64

// JumpFactor is the allowed ratio of the time between two samples of a sequence to the usual time:
// the longest in training (in all but 2 % of its sequences) if known, else the time of the rate.
// One lost sample doubles the time.
const JumpFactor = 1.5

// DefaultTolerance is the allowed relative difference of a rate from the model's rate: more than
// clocks differ, and less than a difference that changes most signals.
const DefaultTolerance = 0.05

// wentBack is the longest interval of a sequence in which time went back.
const wentBack = math.MaxInt64

// Clock is the state of the times of one open sequence: enough to compute its rate. All values are
// whole nanoseconds.
type Clock struct {
	First   int64  // time of the first sample, ns; NoTime: unknown, for example if a sample of the sequence has no time
	Longest int64  // the longest interval of two samples, ns; math.MaxInt64 if time went back
	Count   uint32 // intervals since First; after math.MaxUint32 intervals both restart
}

// Begin starts with a sequence's first sample, whose time may be NoTime.
func (c *Clock) Begin(time int64) { *c = Clock{First: time} }

// AddTimes continues with the next samples of the sequence. before is the time of the previous
// sample.
func (c *Clock) AddTimes(times []int64, before int64) {
	if c.First == NoTime {
		return
	}
	for _, t := range times {
		d := t - before
		switch {
		case t == NoTime:
			c.Lose()
			return
		case t < before || d < 0: // an interval of more than 292 years is invalid, too
			d = wentBack
		}
		if c.Count == math.MaxUint32 { // in an endless sequence, after two days at 25.6 kHz
			c.First, c.Count = before, 0
		}
		c.Longest, c.Count = max(c.Longest, d), c.Count+1
		before = t
	}
}

// Lose records that the sequence's next samples have no times.
func (c *Clock) Lose() { *c = Clock{First: NoTime} }

// Began returns the time of the sequence's first sample, which is its earliest; NoTime if unknown,
// or if time went back.
func (c *Clock) Began() int64 {
	if c.Longest == wentBack {
		return NoTime
	}
	return c.First
}

// Period returns the mean time between two samples of a sequence, ns; last is the time of its last
// sample. The result is 0 if unknown, or if time went back.
func (c *Clock) Period(last int64) float64 {
	if c.First == NoTime || last == NoTime || c.Count == 0 || c.Longest == wentBack {
		return 0
	}
	return float64(uint64(last)-uint64(c.First)) / float64(c.Count)
}

// Rate compares a sequence's times with the training rate of a model. The zero value has no rate.
type Rate struct {
	hertz     float64 // 0: no sequence is off
	longest   float64 // longest interval that is not a jump, ns
	tolerance float64 // share of the time
}

// NewRate returns the rate of a model. With a tolerance of 0 or less, or for a model without a
// rate, no sequence is off.
func NewRate(t reservoir.Training, tolerance float64) Rate {
	if !(tolerance > 0) || t.Rate == 0 {
		return Rate{}
	}
	return Rate{hertz: t.Rate, longest: JumpFactor * max(1e9/t.Rate, float64(t.LongestInterval)), tolerance: tolerance}
}

// IsOff reports whether a sequence's samples had another rate, or a jump in time. last is the time
// of its last sample. If a time is missing, or there is only one sample, the result is false.
//
// Let n be the number of intervals and d the time from the first sample to the last, in intervals
// of the model's rate. The rate is off if |d - n| is more than tolerance*n + 1: the 1 is for
// rounded times, and for sequences of few samples. After 2^32 - 1 intervals, n and d restart from
// 0. There is a jump if an interval is longer than JumpFactor times the longest in training, or of
// the rate; or if time went back.
func (r Rate) IsOff(c *Clock, last int64) bool {
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
