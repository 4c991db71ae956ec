// Package monitor reports whether a stream's samples differ from the model's training data. A
// readout cannot detect this: for any input it selects one of its classes, and a dead sensor may be
// further on a class's side than any healthy sensor.
//
// The package detects two signs, per channel, against the training range in the model
// (reservoir.InputRange):
//
//	out of range  a value below min - m or above max + m, where m is the
//	              margin, RangeMargin times max - min
//	flat          one value for more consecutive samples than RunFactor times
//	              the longest run in training, and more than RunLeast
//
// A channel without a range (without values in training) never has a sign.
//
// A run is counted over a stream's samples, and within a sequence from the sequence's first sample,
// so that a series has the same result by itself and inside a stream. A missing value ends a run
// and is never out of range, whatever value replaces it: a separate flag reports missing values.
//
// The package does not detect noise or another signal within the range, a slow drift, a channel
// that is too quiet but not constant, or two exchanged channels. On healthy data the signs are
// rare, but possible: docs/faults.md has figures.
//
// The findings depend only on a stream's samples in order, not on their division into messages.
package monitor

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The margins, measured on held-out data: see docs/faults.md.
const (
	RangeMargin = 0.5 // of max - min, on either side
	RunFactor   = 2   // times the longest run in training
	RunLeast    = 8   // samples; a run of this length is never flat
)

// Limits are a model's limits, one per channel. They are constant.
type Limits struct {
	low, high []float32
	run       []int64 // longest run that is not flat
	within    float32 // a value of at most this magnitude is in every range; 0 if there is none
}

// NewLimits returns the limits of channels for a model's training ranges, which may be empty.
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

// Channel is the state of a stream's channel: its last value and the length of its run in samples.
// Both are 0 before the first sample and after a missing value.
type Channel struct {
	Last float32
	Run  uint32 // math.MaxUint32 means this number or more
}

// Findings are the signs in some samples of one stream. The zero value has none; the memory is
// reused.
type Findings struct {
	any     bool
	channel int // channel of the first sign
	samples []finding
}

type finding struct {
	outside bool
	run     int64 // smallest limit exceeded by a run at this sample; 0: none
}

// Watch processes a stream's next samples, x, row-major with NaN for missing values; it updates the
// channels and replaces f by the findings.
func (l *Limits) Watch(channels []Channel, x []float32, f *Findings) {
	f.any = false
	if len(x) == 0 {
		return
	}
	if l.within == 0 || !kernel.Within(x, l.within) { // NaN is not within
		l.findOutside(x, f)
	}
	width := len(channels)
	for c := range channels {
		ch := &channels[c]
		run := int64(ch.Run)
		if at := x[c:]; mayBeFlat(at, width, *ch, l.run[c]) {
			markFlatRuns(at, width, *ch, l.run[c], c, f)
		}
		last := x[len(x)-width+c]
		k := int64(0) // number of samples at the end with the last value
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

// findOutside marks values out of range.
func (l *Limits) findOutside(x []float32, f *Findings) {
	width := len(l.low)
	for c, low := range l.low {
		high := l.high[c]
		for i := c; i < len(x); i += width {
			if v := x[i]; v < low || v > high {
				f.findingAt(c, i/width, len(x)/width).outside = true
			}
		}
	}
}

// mayBeFlat reports whether a channel's next samples, x[0], x[width] and so on, may have a run of
// more than limit. It checks few samples: of any limit neighbors in such a run, two are at a
// multiple of limit. The run that is open before the first sample may be shorter by its present
// length.
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

// markFlatRuns marks the samples at which a run of channel c is longer than limit.
func markFlatRuns(x []float32, width int, before Channel, limit int64, c int, f *Findings) {
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
			at := f.findingAt(c, i/width, (len(x)+width-1)/width)
			if at.run == 0 || limit < at.run {
				at.run = limit
			}
		}
	}
}

// Channel returns the channel of the first sign, if any.
func (f *Findings) Channel() int { return f.channel }

func (f *Findings) findingAt(channel, sample, count int) *finding {
	if !f.any {
		f.any, f.channel = true, channel
		f.samples = slices.Grow(f.samples[:0], count)[:count]
		clear(f.samples)
	}
	return &f.samples[sample]
}

// In reports the signs of samples [from, to) of a sequence that had age samples before sample from.
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

// WatchRegimes marks samples out of range whose settings are far from each operating regime,
// after Watch of the same samples. No value is missing. g may be nil.
func (l *Limits) WatchRegimes(g *reservoir.Regimes, x []float32, f *Findings) {
	if g == nil {
		return
	}
	width := len(l.low)
	for i := 0; i < len(x); i += width {
		if _, far := g.Of(x[i : i+width]); far {
			f.findingAt(g.Settings[0], i/width, len(x)/width).outside = true
		}
	}
}
