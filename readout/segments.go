package readout

import (
	"fmt"
	"slices"
)

// SegmentWeights add a linear function of the statistics of a sequence's segments to the
// scores (reservoir.Segments). The other weights of the readout are 0.
type SegmentWeights struct {
	Center  []float32 // of each statistic
	Limit   []float32 // largest distance from Center that counts, positive
	Weights []float32 // columns x statistics, row-major
}

// Statistics returns the number of statistics that the weights read; 0 for nil.
func (s *SegmentWeights) Statistics() int {
	if s == nil {
		return 0
	}
	return len(s.Center)
}

// Distance returns the factor of the weights of statistic j with the given value: statistic -
// Center, limited to [-Limit, Limit].
func (s *SegmentWeights) Distance(j int, value float32) float64 {
	limit := float64(s.Limit[j])
	return min(max(float64(value)-float64(s.Center[j]), -limit), limit)
}

// addTo adds the sum of Weights * Distance to each score. Without statistics it changes
// nothing.
//
// Canonical, and the same on every platform: float64 from the float32 numbers, one rounding
// for each operation, in ascending order; the result is rounded to float32.
func (s *SegmentWeights) addTo(scores, statistics []float32) {
	if s == nil || len(statistics) < len(s.Center) {
		return
	}
	n := len(s.Center)
	for c := range scores {
		sum := float64(scores[c])
		for j, w := range s.Weights[c*n : (c+1)*n] {
			sum += float64(float64(w) * s.Distance(j, statistics[j]))
		}
		scores[c] = float32(sum)
	}
}

// checkSegments reports errors of shape and value.
func (l *Linear) checkSegments() error {
	s := l.Segments
	switch {
	case s == nil:
		return nil
	case l.Interval != nil || l.Detects || l.Prefixes != nil:
		return fmt.Errorf("readout: %q: weights of segments, want them only in a readout with classes, without a readout of prefixes", l.Name)
	case len(s.Center) == 0 || len(s.Limit) != len(s.Center) || len(s.Weights) != l.Columns()*len(s.Center):
		return fmt.Errorf("readout: %q: weights of segments: %d statistics, %d limits and %d weights, want at least one statistic, and one limit and %d weights for each", l.Name, len(s.Center), len(s.Limit), len(s.Weights), l.Columns())
	case slices.ContainsFunc(l.Weights, func(w float32) bool { return w != 0 }):
		return fmt.Errorf("readout: %q: weights of segments and of the network, want only those of segments", l.Name)
	case slices.ContainsFunc(s.Limit, func(v float32) bool { return !(v > 0) }):
		return fmt.Errorf("readout: %q: weights of segments: want positive limits", l.Name)
	}
	for _, v := range [][]float32{s.Center, s.Limit, s.Weights} {
		for i, x := range v {
			if !isFinite(x) {
				return fmt.Errorf("readout: %q: weights of segments: number %d is %v, want finite numbers", l.Name, i, x)
			}
		}
	}
	return nil
}
