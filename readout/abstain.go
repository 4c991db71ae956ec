package readout

import "fmt"

// AbstainRule decides which predictions are answers. It is immutable.
type AbstainRule struct {
	MaxError   float64 `json:"max_error"`  // share of the answers that may be wrong, above 0 and below 1
	Confidence float64 `json:"confidence"` // that the share is not larger, above 0 and below 1
	Above      float64 `json:"above"`      // a prediction answers if its probability is above this; 1: none answers, 0: all answer
}

// Validate returns an error for invalid values.
func (r *AbstainRule) Validate() error {
	if !(r.MaxError > 0 && r.MaxError < 1) {
		return fmt.Errorf("abstain: a largest error of %v, want a share above 0 and below 1", r.MaxError)
	}
	if !(r.Confidence > 0 && r.Confidence < 1) {
		return fmt.Errorf("abstain: confidence %v, want a probability above 0 and below 1", r.Confidence)
	}
	if !(r.Above >= 0 && r.Above <= 1) {
		return fmt.Errorf("abstain: threshold %v, want a probability", r.Above)
	}
	return nil
}

// Answers reports whether a prediction with the given probability of its class is an answer. A
// probability of 0, not known, is no answer.
func (r *AbstainRule) Answers(probability float32) bool { return float64(probability) > r.Above }
