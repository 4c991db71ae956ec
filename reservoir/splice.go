package reservoir

import (
	"math"
)

// Splice returns a function that combines the features a and b of two sequences into the features
// dst of a sequence like a for a share (0 to 1) of the time, then like b: shares of samples and means are weighted means, the
// deviation covers both together, the maximum is the larger one, and the last state is
// that of b. Both parts begin from rest: no state crosses the seam. nil for kinds except mixed,
// which were not measured.
func (s Spec) Splice() func(dst, a, b []float32, share float32) {
	if s.Kind != Mixed {
		return nil
	}
	const mean, std = 1, 4 // places in MixedFeatures
	units := s.Units
	return func(dst, a, b []float32, share float32) {
		u, v := float64(share), 1-float64(share)
		for i := range dst {
			x, y := float64(a[i]), float64(b[i])
			switch MixedFeatures[i/units%len(MixedFeatures)] {
			case Last:
				dst[i] = b[i]
			case Max:
				dst[i] = max(a[i], b[i])
			case Std:
				p, q := float64(a[i-(std-mean)*units]), float64(b[i-(std-mean)*units])
				both := float64(u*p) + float64(v*q)
				square := float64(u*(float64(x*x)+float64(p*p))) + float64(v*(float64(y*y)+float64(q*q)))
				dst[i] = float32(math.Sqrt(max(0, square-float64(both*both))))
			default:
				dst[i] = float32(float64(u*x) + float64(v*y))
			}
		}
	}
}
