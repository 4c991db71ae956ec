package offline

import (
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/quality"
)

// Prediction is what the stage predicts at one place of a series, or of a
// stream of a recording.
type Prediction struct {
	ID       string     // of the series, or of the stream
	Position int64      // samples of it so far
	Samples  int        // of them, those of the sequence
	Flags    codec.Flag // those of them that come of the samples, as the stage sets them
	Label    int        // index into Evaluation.Classes of the class that all samples of the sequence have; -1 where there is none
	Class    int        // the predicted one
	Scores   []float32  // of each class; for two classes one, positive for class 1
	// Probability is the class's among the readout's classes, see
	// readout.Linear.Probability; 0 where the readout has no temperature.
	Probability float32
	// Set are the classes of its set, see readout.Linear.AppendSet; nil where the
	// readout makes none.
	Set []int32
	// Novelty is how unlike the training part the sequence is (novelty.Detector.Score)
	// and P its p-value; both 0 where the readout has no detector.
	Novelty, P float32
	// Inputs are what its inputs are like (codec.Prediction.Inputs); nil where the detector
	// does not say.
	Inputs []float32
	// Change is the probability that the class changes until the end, of an early
	// prediction (readout.Linear.Change); 0 of others, or where the readout has no rule.
	Change  float32
	Unknown bool // the label is a class that the readout does not know
	// Of a regression: the true number, NaN where it is not known, the predicted one, and
	// its interval; see readout.Linear.Number. Label is 0 where it is known, Class 0.
	Number           float64
	Value, Low, High float32
}

// Early reports whether the sequence continued.
func (p *Prediction) Early() bool { return p.Flags&codec.FlagEarly != 0 }

// number fills in what a regression predicts.
func (p *Prediction) number(l *readout.Linear, number float64) {
	if l.Interval == nil {
		return
	}
	p.Number = number
	p.Value, p.Low, p.High = l.Number(p.Scores)
}

// numbersOf measures the predictions that count; nil where no number is known.
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
		return of[i].Number, float64(of[i].Value), float64(of[i].Low), float64(of[i].High)
	})
}
