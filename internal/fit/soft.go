package fit

import (
	"fmt"
	"math"
	"slices"
)

// Soft scales features of several kinds softly: in place of its deviation dev a feature is
// divided by sqrt(dev^2 + med^2 + floor^2), med being the median deviation of all varying
// features of its kind. So a feature that hardly varies, compared with its kind, keeps little
// weight; division by its deviation would make its noise as large as any signal. The floor is
// the noise of the kind, for example of a share of few samples.
//
// With a Clip each feature, centered and scaled, is then limited to [-Clip, Clip]: an extreme
// value has no more weight than a merely unusual value. The learned readout has limits
// (readout.Linear.Limit), from the same centers and scales. A Learner that does not keep all
// samples needs the samples twice, because the scales must be known before the first sample is
// limited (Learner.Measure).
type Soft struct {
	Run    int       // successive features of one kind
	Floors []float64 // of each kind; the kinds follow in this order, and repeat after the last
	Clip   float64   // 0: features are not limited
}

// NewSoft returns soft scaling with these fields, or nil if run is 0, as in reservoir.Spec's
// SoftScaling for kinds whose features are divided by their deviation.
func NewSoft(run int, floors []float64, clip float64) *Soft {
	if run == 0 {
		return nil
	}
	return &Soft{Run: run, Floors: floors, Clip: clip}
}

// check reports errors for the given number of features.
func (s *Soft) check(features int) error {
	if s == nil {
		return nil
	}
	if s.Run < 1 || len(s.Floors) < 1 || features%(s.Run*len(s.Floors)) != 0 {
		return fmt.Errorf("fit: soft scaling of %d kinds in runs of %d, want both at least 1, and %d features to be whole rounds of them", len(s.Floors), s.Run, features)
	}
	for _, f := range s.Floors {
		if !(f >= 0) || math.IsInf(f, 0) {
			return fmt.Errorf("fit: soft scaling with the floor %v, want zero or a positive number", f)
		}
	}
	if !(s.Clip >= 0) || math.IsInf(s.Clip, 0) {
		return fmt.Errorf("fit: features clipped at %v, want a positive number, or zero for no clip", s.Clip)
	}
	return nil
}

// Scales returns factors of centered features with these means and variances, for other models
// than a readout; 0 removes a feature. Without s a factor is 1 over the deviation. mean and
// variance may change.
func (s *Soft) Scales(mean, variance []float64) []float64 {
	return newSpace(mean, variance, scaling{standardize: true, soft: s}).scale
}

// soften converts scales of one over the deviation, 0 if a feature does not vary, to soft
// scales.
func (s *Soft) soften(scale []float64) {
	kinds := make([][]float64, len(s.Floors))
	for j, v := range scale {
		if v != 0 {
			kinds[s.kind(j)] = append(kinds[s.kind(j)], 1/v)
		}
	}
	added := make([]float64, len(kinds)) // med^2 + floor^2
	for k, devs := range kinds {
		m := median(devs)
		added[k] = float64(m*m) + float64(s.Floors[k]*s.Floors[k])
	}
	for j, v := range scale {
		if v != 0 {
			dev := 1 / v
			scale[j] = 1 / math.Sqrt(float64(dev*dev)+added[s.kind(j)])
		}
	}
}

func (s *Soft) kind(feature int) int { return feature / s.Run % len(s.Floors) }

// median returns the middle value, or the mean of the two middle values; 0 for none. median
// sorts v.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
