package reservoir

import (
	"math"
	"slices"
)

// docs/mixed-bank.md documents the drawing of members of kind mixed, so that
// another program can redraw every weight.

// Further tensor numbers in the key; see draw.go.
const (
	tensorTaps = 5 + iota
	tensorLeaks
	tensorCentered
)

// normal is nearly normally distributed, with mean 0 and deviation 1: the sum of
// the four 16-bit parts of bits(k).
func (s source) normal(k int) float64 {
	b := s.bits(k)
	sum := int64(b&0xffff) + int64(b>>16&0xffff) + int64(b>>32&0xffff) + int64(b>>48)
	return float64(math.Sqrt(3) * (float64(sum-2*0xffff) / (1 << 16))) // converted, so that no platform fuses the sum that follows
}

// below is in 0..n-1.
func (s source) below(k, n int) int { return int(s.bits(k) >> 32 * uint64(n) >> 32) }

// drawMixed makes all members of kind mixed: tap members in order, then
// recurrent members by their number of inputs, equal numbers in order.
func drawMixed(s Spec) []Member {
	members := make([]Member, s.Members)
	for r := range members {
		if s.HasTaps(r) {
			members[r] = drawTaps(s, r)
		} else {
			members[r] = drawRecurrent(s, r)
		}
	}
	slices.SortStableFunc(members[s.Taps.Members:], func(a, b Member) int { return len(a.Inputs) - len(b.Inputs) })
	return members
}

// drawTaps makes tap member r.
func drawTaps(s Spec, r int) Member {
	scales, w := newSource(s.Seed, r, tensorScales), newSource(s.Seed, r, tensorInput)
	leaks, centered := newSource(s.Seed, r, tensorLeaks), newSource(s.Seed, r, tensorCentered)
	m := Member{Keep: 1, Gain: 1}
	m.Inputs, m.Lags = drawPairs(s, r)
	n, count := s.Units, s.Taps.Count
	size := scales.scale(scaleInput, s.Input)
	unit := size / math.Sqrt(float64(count))
	for i := range n {
		row := make([]float64, count)
		sum := 0.
		for k := range row {
			row[k] = w.normal(i*count + k)
			sum += row[k]
		}
		mean := 0.
		if centered.bits(i)>>63 == 1 {
			mean = sum / float64(count)
		}
		for _, v := range row {
			m.Input = append(m.Input, s.Precision.round(float32(unit*(v-mean))))
		}
		m.Recurrent = append(m.Recurrent, s.Precision.round(float32(-leaks.scale(i, s.Gamma))))
	}
	m.Bias = drawBiases(s, r, size)
	return m
}

// drawPairs picks the inputs and lags of a tap member: only raw samples or only
// differences, of at most three channels.
func drawPairs(s Spec, r int) (inputs, lags []int32) {
	places := shuffleInputs(s, r)
	src, first := newSource(s.Seed, r, tensorTaps), int32(0)
	if s.Difference && src.bits(0)>>63 == 1 {
		first = int32(s.Channels)
	}
	var seen []int32
	for _, c := range places[:min(3, len(places))] {
		seen = append(seen, first+c%int32(s.Channels))
	}
	slices.Sort(seen)
	seen = slices.Compact(seen)
	for k := range s.Taps.Count {
		lag := 0
		if k > 0 {
			lag = src.below(2+2*k, s.Taps.MaxLag+1)
		}
		inputs, lags = append(inputs, seen[src.below(1+2*k, len(seen))]), append(lags, int32(lag))
	}
	return inputs, lags
}

// drawRecurrent makes recurrent member r: of kind eusn with eps 1, except for
// its biases.
func drawRecurrent(s Spec, r int) Member {
	s.Kind, s.Eps = EuSN, Fixed(1)
	m := drawMember(s, r)
	m.Bias = drawBiases(s, r, newSource(s.Seed, r, tensorScales).scale(scaleInput, s.Input))
	return m
}

// drawBiases are in units of the size of the member's input weights.
func drawBiases(s Spec, r int, size float64) []float32 {
	src, ratio := newSource(s.Seed, r, tensorBias), newSource(s.Seed, r, tensorScales).scale(scaleBias, s.Bias)
	b := make([]float32, s.Units)
	for i := range b {
		b[i] = s.Precision.round(float32(size * ratio * src.symmetric(i)))
	}
	return b
}
