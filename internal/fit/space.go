package fit

import "math"

// noise is the share of a feature's mean below which its deviation counts as float32 rounding
// (a few units in the last place, 2^-24 relative each): a constant feature, which
// standardizing would blow up to noise of size 1.
const noise = 0x1p-22

// space maps a raw feature to the solver's feature: (x - mean) * scale. A scale of zero
// removes the feature. With a clip x is a centered and limited feature, and mean its remaining
// mean.
type space struct {
	mean, scale []float64
	clip        *clip
}

// scaling selects the divisor of features: none, their deviation, or a soft scale.
type scaling struct {
	standardize bool
	soft        *Soft // nil: only the deviation
}

// clip returns the limit of features; 0: no limit.
func (o scaling) clip() float64 {
	if !o.standardize || o.soft == nil {
		return 0
	}
	return o.soft.Clip
}

// newSpace takes ownership of mean. variance is only read if features are standardized.
func newSpace(mean, variance []float64, o scaling) space {
	s := space{mean: mean, scale: make([]float64, len(mean))}
	for j := range s.scale {
		if !o.standardize {
			s.scale[j] = 1
		} else if dev := math.Sqrt(variance[j]); dev > noise*math.Abs(mean[j]) && dev > math.SmallestNonzeroFloat32 {
			s.scale[j] = 1 / dev
		}
	}
	if o.standardize && o.soft != nil {
		o.soft.soften(s.scale)
	}
	return s
}

// constants counts the removed features.
func (s space) constants() int {
	n := 0
	for _, v := range s.scale {
		if v == 0 {
			n++
		}
	}
	return n
}
