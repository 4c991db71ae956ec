package sequencetest

import (
	"math"
	"math/big"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

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
