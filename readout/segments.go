package readout

import "fmt"

// SegmentWeights add a linear function of the statistics of a sequence's segments to the
// scores (reservoir.Segments).
type SegmentWeights struct {
	Center  []float32 // of each statistic
	Weights []float32 // columns x statistics, row-major
}

// Statistics returns the number of statistics that the weights read; 0 for nil.
func (s *SegmentWeights) Statistics() int {
	if s == nil {
		return 0
	}
	return len(s.Center)
}

// addTo adds the sum of Weights * (statistic - Center) to each score. Without statistics it
// changes nothing.
//
// Canonical, and the same on every platform: float64 from the float32 numbers, one rounding
// for each operation, in ascending order; the result is rounded to float32.
func (s *SegmentWeights) addTo(scores, statistics []float32) {
	if s == nil || len(statistics) < len(s.Center) {
		return
	}
	n := len(s.Center)
	statistics = statistics[:n]
	for c := range scores {
		sum := float64(scores[c])
		for j, w := range s.Weights[c*n : (c+1)*n] {
			sum += float64(float64(w) * (float64(statistics[j]) - float64(s.Center[j])))
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
	case len(s.Center) == 0 || len(s.Weights) != l.Columns()*len(s.Center):
		return fmt.Errorf("readout: %q: weights of segments: %d statistics and %d weights, want at least one statistic, and %d weights for each", l.Name, len(s.Center), len(s.Weights), l.Columns())
	}
	for _, v := range [][]float32{s.Center, s.Weights} {
		for i, x := range v {
			if !isFinite(x) {
				return fmt.Errorf("readout: %q: weights of segments: number %d is %v, want finite numbers", l.Name, i, x)
			}
		}
	}
	return nil
}
