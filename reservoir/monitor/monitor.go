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
//	flat          one value for more samples in a row than RunFactor times the
//	              longest run in training, and more than RunLeast
//
// A channel without a range (of a model from before there were any, or one
// that had no value in training) shows neither sign.
//
// A run is counted over a stream's samples, and within a sequence from the
// sequence's first sample, so that a series by itself and the same series
// somewhere in a stream come to the same. A missing value ends a run and is in
// no range, whatever stands in its place: that a sensor says nothing is
// reported by a flag of its own.
//
// What it does not see: noise, or another signal, within the range; a slow
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
	RunLeast    = 8   // samples; a run of so many is never flat
)

// Limits are a model's limits, one of each per channel. They do not change.
type Limits struct {
	low, high []float32
	run       []uint32 // longest run that is not flat
}

// NewLimits makes the limits of channels from a model's training ranges, which
// may be none.
func NewLimits(channels int, ranges []reservoir.InputRange) *Limits {
	l := &Limits{low: make([]float32, channels), high: make([]float32, channels), run: make([]uint32, channels)}
	for c := range channels {
		l.low[c], l.high[c], l.run[c] = float32(math.Inf(-1)), float32(math.Inf(1)), math.MaxUint32
		if c >= len(ranges) || ranges[c].Values == 0 {
			continue
		}
		r := ranges[c]
		margin := RangeMargin * (float64(r.Max) - float64(r.Min))
		l.low[c], l.high[c] = float32(float64(r.Min)-margin), float32(float64(r.Max)+margin)
		l.run[c] = uint32(min(max(RunLeast, RunFactor*int64(r.LongestRun)), math.MaxUint32))
	}
	return l
}

// Channel is what a stream remembers of a channel: its last value that was not
// missing and for how many samples it has had it, 0 where the last was missing.
type Channel struct {
	Last float32
	Run  uint32 // math.MaxUint32 and more are one
}

// Findings are the signs in some samples of one stream. The zero value has
// none; the memory is used again.
type Findings struct {
	any  bool
	rows []finding
}

type finding struct {
	outside bool
	run     uint32 // the least limit that a run there exceeds; 0: none does
}

// Watch takes a stream's next samples, x, row-major with NaN for missing
// values, moves its channels on and replaces f by what it found.
func (l *Limits) Watch(channels []Channel, x []float32, f *Findings) {
	f.any = false
	width := len(channels)
	for c := range channels {
		ch := &channels[c]
		low, high, limit := l.low[c], l.high[c], l.run[c]
		last, run := ch.Last, ch.Run
		for i := c; i < len(x); i += width {
			v := x[i]
			switch {
			case v == last:
				if run < math.MaxUint32 {
					run++
				}
				if run > limit {
					f.flat(i/width, len(x)/width, limit)
				}
			case v == v:
				last, run = v, 1
			default:
				run = 0
			}
			if v < low || v > high {
				f.at(i/width, len(x)/width).outside = true
			}
		}
		ch.Last, ch.Run = last, run
	}
}

func (f *Findings) at(row, rows int) *finding {
	if !f.any {
		f.any = true
		f.rows = slices.Grow(f.rows[:0], rows)[:rows]
		clear(f.rows)
	}
	return &f.rows[row]
}

func (f *Findings) flat(row, rows int, limit uint32) {
	if at := f.at(row, rows); at.run == 0 || limit < at.run {
		at.run = limit
	}
}

// In reports what rows [from, to) of the samples show of a sequence that had
// age samples before row from.
func (f *Findings) In(from, to int, age int64) (outside, flat bool) {
	if !f.any {
		return false, false
	}
	for i, at := range f.rows[from:to] {
		outside = outside || at.outside
		flat = flat || at.run > 0 && age+int64(i)+1 > int64(at.run)
	}
	return outside, flat
}
