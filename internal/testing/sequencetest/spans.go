// Package sequencetest computes by definition where sequences begin and end, for tests of
// code that splits streams.
package sequencetest

import (
	"math"
	"math/big"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Span is a prediction by definition: over samples [From, To) of the stream, made after
// the sample before row To (or the sample that reveals the silence).
type Span struct {
	From, To int
	End      bool // closes the sequence
}

// windowSpans is Spans for windows over n samples.
func windowSpans(p reservoir.Policy, n int) (out []Span) {
	for to := 1; to <= n; to++ {
		if to >= p.Length && to%p.Hop == 0 {
			out = append(out, Span{to - p.Length, to, true})
		} else if p.Early > 0 && to%p.Early == 0 {
			from := 0
			for from+p.Length <= to {
				from += p.Hop
			}
			out = append(out, Span{from, to, false})
		}
	}
	return out
}

// isPauseBefore reports whether a silence before sample i ends the sequence.
func isPauseBefore(p reservoir.Policy, times []int64, i int) bool {
	return p.Kind == reservoir.Gap && i < len(times) && times[i]-times[i-1] > int64(p.Gap)
}

// Spans lists the predictions of the policy's definition, in order, without the methods
// of package sequence. times and ends have a value per sample; last: the sequence ends
// with the last sample.
func Spans(p reservoir.Policy, times []int64, ends []bool, last bool) []Span {
	n := len(times)
	var out []Span
	if p.Kind == reservoir.Window {
		return windowSpans(p, n)
	}
	from := 0
	for to := 1; to <= n; to++ {
		closed := false
		switch p.Kind {
		case reservoir.Marked, reservoir.Gap:
			closed = ends[to-1] || last && to == n
		case reservoir.Count:
			closed = to-from == p.Length
		}
		early := p.Early > 0 && (to-from)%p.Early == 0
		silence := !closed && isPauseBefore(p, times, to)
		if closed || early {
			out = append(out, Span{from, to, closed})
		}
		if silence {
			out = append(out, Span{from, to, true})
		}
		if closed || silence {
			from = to
		}
	}
	return out
}

// IntervalTimes returns the times for the sampling rate of span i: the times of the
// samples or, under the policy endless, the times since the previous prediction, from the
// last sample of that prediction on.
func IntervalTimes(p reservoir.Policy, spans []Span, i int, times []int64) []int64 {
	from := spans[i].From
	if p.Kind == reservoir.Endless && i > 0 {
		from = spans[i-1].To - 1
	}
	return times[from:spans[i].To]
}

// OffRate reports by definition, in exact arithmetic, whether samples with these times
// (math.MinInt64: none) have a different rate than the training samples, or a jump in
// time.
func OffRate(t reservoir.Training, tolerance float64, times []int64) bool {
	n := len(times) - 1
	if n < 1 || slices.Contains(times, math.MinInt64) {
		return false
	}
	exact := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	whole := func(v int64) *big.Rat { return new(big.Rat).SetInt64(v) }
	period := new(big.Rat).Quo(whole(1e9), exact(t.Rate))
	usual := period
	if l := whole(t.LongestInterval); l.Cmp(usual) > 0 {
		usual = l
	}
	usual = new(big.Rat).Mul(usual, big.NewRat(3, 2))
	for i, v := range times[1:] {
		if v < times[i] || whole(v-times[i]).Cmp(usual) > 0 {
			return true
		}
	}
	off := new(big.Rat).Quo(whole(times[n]-times[0]), period)
	off.Sub(off, whole(int64(n))).Abs(off)
	may := new(big.Rat).Mul(exact(tolerance), whole(int64(n)))
	return off.Cmp(may.Add(may, whole(1))) > 0
}
