package offline

import (
	"github.com/eusn-stream/eusn-stream/internal/quality"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Prediction is the stage's prediction at a place of a series, or of a stream of a recording.
type Prediction struct {
	ID       string // of the series, or of the stream
	Position int64  // samples of the series so far
	Samples  int    // samples of the sequence
	Label    int    // index into Evaluation.Classes of the class that all samples of the sequence have; -1 if there is none
	Unknown  bool   // the label is a class that the readout does not know
	// Truth is the true number, of a regression; NaN if unknown. Label is 0 for a known number.
	Truth          float64
	outcome.Answer // with the flags that the stage sets for the same samples
}

// numbersOf measures the counted predictions; nil if no number is known.
func numbersOf(all []Prediction, counts func(*Prediction) bool) *quality.Numbers {
	var of []*Prediction
	for i := range all {
		if p := &all[i]; counts(p) && p.Label >= 0 {
			of = append(of, p)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return quality.OfNumbers(len(of), func(i int) (number, value, low, high float64) {
		n := &of[i].Number
		return of[i].Truth, float64(n.Value), float64(n.Low), float64(n.High)
	})
}
