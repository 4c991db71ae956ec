package offline

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/readout"
)

// adaptSets lets the labels of predictions move the thresholds of their sets.
func adaptSets(linear *readout.Linear, of []*Prediction, rate float64, late int) (*adaptive.Report, error) {
	set := make([]int32, 0, len(linear.Classes))
	return adaptive.Run(linear.Coverage.Level, rate, late, len(of), func(i int, share float64) (held bool, size int) {
		set = linear.AppendSetAt(set[:0], of[i].Scores, fit.ThresholdsAt(linear.Coverage, share))
		return slices.Contains(set, int32(of[i].Label)), len(set)
	})
}

// adaptNumbers lets the true numbers move the edges of their intervals.
func adaptNumbers(v *readout.Interval, of []*Prediction, rate float64, late int) (*adaptive.Numbers, error) {
	return adaptive.RunNumbers(v.Level, rate, float64(v.Low), float64(v.High), late, len(of), func(i int) float64 {
		return of[i].Truth - float64(of[i].Number.Value)
	})
}
