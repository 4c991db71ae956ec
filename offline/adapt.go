package offline

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/adaptive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// adapt lets the labels of the predictions that are counted move the thresholds of their
// sets, or the edges of their intervals.
func (ev *Evaluation) adapt(linear *readout.Linear, opt EvaluateOptions) (err error) {
	if opt.Adaptive == 0 || ev.Labelled == 0 {
		return nil
	}
	of := ev.labelled()
	if v := linear.Interval; v != nil {
		ev.AdaptiveNumbers, err = adaptive.RunNumbers(v.Level, opt.Adaptive, float64(v.Low), float64(v.High), opt.LabelDelay, len(of), func(i int) float64 {
			return of[i].Number - float64(of[i].Value)
		})
		return err
	}
	set := make([]int32, 0, len(ev.Classes))
	ev.Adaptive, err = adaptive.Run(linear.Coverage.Level, opt.Adaptive, opt.LabelDelay, len(of), func(i int, share float64) (held bool, size int) {
		set = linear.AppendSetAt(set[:0], of[i].Scores, linear.Coverage.At(share))
		return slices.Contains(set, int32(of[i].Label)), len(set)
	})
	return err
}

// Adapted is m, the model that was evaluated, with the thresholds or the interval that the
// last label has led to. It is an error where EvaluateOptions.Adaptive was 0, or nothing is
// labelled. m stays as it is.
func (ev *Evaluation) Adapted(m *reservoir.Model) (*reservoir.Model, error) {
	linear, err := chooseReadout(m, ev.Readout)
	if err != nil {
		return nil, err
	}
	next, l := *m, *linear
	switch {
	case ev.Adaptive != nil:
		l.Coverage = l.Coverage.Acting(ev.Adaptive.Share)
	case ev.AdaptiveNumbers != nil:
		l.Interval = l.Interval.Moved(ev.AdaptiveNumbers.Low, ev.AdaptiveNumbers.High)
	default:
		return nil, fmt.Errorf("offline: %s: no label has moved a threshold or an interval: want labels, or numbers, and a rate", ev.Dataset)
	}
	next.Readouts = slices.Clone(m.Readouts)
	next.Readouts[slices.Index(next.Readouts, linear)] = &l
	return &next, next.Validate()
}

// labelled are the predictions that are counted and whose class is known.
func (ev *Evaluation) labelled() (of []*Prediction) {
	for i := range ev.Predictions {
		if p := &ev.Predictions[i]; ev.Counts(p) && p.Label >= 0 {
			of = append(of, p)
		}
	}
	return of
}
