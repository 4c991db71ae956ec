// Package monitor says of a stream's samples whether they are unlike those the
// model was trained on. A readout cannot: whatever it is given, it picks one of
// the classes it knows, and a dead sensor is farther on some class's side than
// any healthy one.
//
// It knows two signs, per channel, both against the training range in the
// model (reservoir.InputRange):
//
//	out of range  a value below min - m or above max + m, where m is the
//	              margin, RangeMargin times max - min
//	flat          one value for more samples running than RunFactor times the
//	              longest run in training, and more than RunLeast
//
// A channel without a range (one that had no value in training) shows neither
// sign.
//
// A run is counted over a stream's samples, and within a sequence from the
// sequence's first sample, so that a series by itself and the same series
// somewhere in a stream come to the same. A missing value ends a run and is in
// no range, whatever takes its place: that a sensor says nothing is
// reported by a flag of its own.
//
// It does not see: noise, or another signal, within the range; a slow
// drift; a channel that is too quiet but not constant; two channels swapped.
// On healthy data the signs are rare, not impossible: see docs/faults.md for
// how often.
//
// The findings are a function of the stream's samples in order, whatever the
// messages they come in.
package monitor

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The margins, measured on held-out data: see docs/faults.md.
const (
	RangeMargin = 0.5 // of max - min, on either side
	RunFactor   = 2   // times the longest run in training
	RunLeast    = 8   // samples; a run of that many is never flat
)

// Limits are a model's limits, one of each per channel. They do not change.
type Limits struct {
	low, high []float32
	run       []int64 // longest run that is not flat
	within    float32 // what is no larger than this is in every range; 0 where that says little
}

// NewLimits makes the limits of channels from a model's training ranges, which
// may be none.
func NewLimits(channels int, ranges []reservoir.InputRange) *Limits {
	inf := float32(math.Inf(1))
	l := &Limits{low: make([]float32, channels), high: make([]float32, channels), run: make([]int64, channels), within: inf}
	for c := range channels {
		l.low[c], l.high[c], l.run[c] = -inf, inf, math.MaxInt64
		if c >= len(ranges) || ranges[c].Values == 0 {
			continue
		}
		r := ranges[c]
		margin := RangeMargin * (float64(r.Max) - float64(r.Min))
		l.low[c], l.high[c] = float32(float64(r.Min)-margin), float32(float64(r.Max)+margin)
		l.run[c] = max(RunLeast, RunFactor*int64(r.LongestRun))
		l.within = max(0, min(l.within, l.high[c], -l.low[c]))
	}
	return l
}

// Channel is what a stream remembers of a channel: its last value and for how
// many samples it has had it. Both are 0 before the first sample and where the
// last was missing.
type Channel struct {
	Last float32
	Run  uint32 // math.MaxUint32 and more are one
}

// Findings are the signs in some samples of one stream. The zero value has
// none; the memory is used again.
type Findings struct {
	any     bool
	channel int // of the first
	samples []finding
}

type finding struct {
	outside bool
	run     int64 // the least limit that a run there exceeds; 0: none does
}

// Watch takes a stream's next samples, x, row-major with NaN for missing
// values, moves its channels on and replaces f by what it found.
func (l *Limits) Watch(channels []Channel, x []float32, f *Findings) {
	f.any = false
	if len(x) == 0 {
		return
	}
	if l.within == 0 || !reservoir.Within(x, l.within) { // NaN is not within
		l.outside(x, f)
	}
	width := len(channels)
	for c := range channels {
		ch := &channels[c]
		run := int64(ch.Run)
		if at := x[c:]; mayBeFlat(at, width, *ch, l.run[c]) {
			flatRuns(at, width, *ch, l.run[c], c, f)
		}
		last := x[len(x)-width+c]
		k := int64(0) // samples at the end that have the last value
		i := len(x) - width + c
		for ; i >= 0 && x[i] == last; i -= width {
			k++
		}
		if i < 0 && ch.Last == last {
			k += run
		}
		if last != last {
			last, k = 0, 0
		}
		ch.Last, ch.Run = last, uint32(min(k, math.MaxUint32))
	}
}

// outside looks for values out of range.
func (l *Limits) outside(x []float32, f *Findings) {
	width := len(l.low)
	for c, low := range l.low {
		high := l.high[c]
		for i := c; i < len(x); i += width {
			if v := x[i]; v < low || v > high {
				f.at(c, i/width, len(x)/width).outside = true
			}
		}
	}
}

// mayBeFlat reports whether a channel's next samples, x[0], x[width] and so on,
// may have a run of more than limit, from few of them: of any limit neighbours
// in such a run, two are where i is a multiple of limit. The run that is open
// before the first may be shorter by what it has.
func mayBeFlat(x []float32, width int, before Channel, limit int64) bool {
	if x[0] == before.Last && before.Run > 0 {
		run := int64(before.Run)
		for i := 0; i < len(x) && x[i] == before.Last; i += width {
			run++
		}
		if run > limit {
			return true
		}
	}
	if limit >= int64(len(x)) {
		return false
	}
	step := int(limit) * width
	for i := step; i < len(x); i += step {
		if x[i] == x[i-width] {
			return true
		}
	}
	return false
}

// flatRuns marks the samples where a run of channel c is longer than limit.
func flatRuns(x []float32, width int, before Channel, limit int64, c int, f *Findings) {
	last, run := before.Last, int64(before.Run)
	for i := 0; i < len(x); i += width {
		switch v := x[i]; {
		case v != v:
			last, run = 0, 0
		case v == last && run > 0:
			last = v
			run++
		default:
			last, run = v, 1
		}
		if run > limit {
			at := f.at(c, i/width, (len(x)+width-1)/width)
			if at.run == 0 || limit < at.run {
				at.run = limit
			}
		}
	}
}

// Channel is the first that shows a sign, where any does.
func (f *Findings) Channel() int { return f.channel }

func (f *Findings) at(channel, sample, count int) *finding {
	if !f.any {
		f.any, f.channel = true, channel
		f.samples = slices.Grow(f.samples[:0], count)[:count]
		clear(f.samples)
	}
	return &f.samples[sample]
}

// In reports what samples [from, to) show of a sequence that had
// age samples before sample from.
func (f *Findings) In(from, to int, age int64) (outside, flat bool) {
	if !f.any {
		return false, false
	}
	for i, at := range f.samples[from:to] {
		outside = outside || at.outside
		flat = flat || at.run > 0 && age+int64(i)+1 > at.run
	}
	return outside, flat
}
