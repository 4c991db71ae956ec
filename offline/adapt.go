package offline

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
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

// adapt lets the labels of the predictions that are counted move the thresholds of their
// sets, or the edges of their intervals.
func (ev *Evaluation) adapt(linear *readout.Linear, opt EvaluateOptions) (err error) {
	switch of := ev.labelled(); {
	case opt.Adaptive == 0 || len(of) == 0:
	case linear.Interval != nil:
		ev.AdaptiveNumbers, err = adaptNumbers(linear.Interval, of, opt.Adaptive, opt.LabelDelay)
	default:
		ev.Adaptive, err = adaptSets(linear, of, opt.Adaptive, opt.LabelDelay)
	}
	return err
}

// Adapted returns m, the evaluated model, with the thresholds or the interval after the last label. An error reports
// that EvaluateOptions.Adaptive was 0, or nothing is labelled. m is not changed.
func (ev *Evaluation) Adapted(m *reservoir.Model) (*reservoir.Model, error) {
	linear, err := chooseReadout(m, ev.Readout)
	if err != nil {
		return nil, err
	}
	next, l := *m, *linear
	switch {
	case ev.Adaptive != nil:
		l.Coverage = fit.ActingCoverage(l.Coverage, ev.Adaptive.Share)
	case ev.AdaptiveNumbers != nil:
		l.Interval = fit.MoveInterval(l.Interval, ev.AdaptiveNumbers.Low, ev.AdaptiveNumbers.High)
	default:
		return nil, fmt.Errorf("offline: %s: no label has moved a threshold or an interval: want labels, or numbers, and a rate", ev.Dataset)
	}
	next.Readouts = slices.Clone(m.Readouts)
	next.Readouts[slices.Index(next.Readouts, linear)] = &l
	return &next, next.Validate()
}
