package readout

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// EarlyRule decides when a prefix of a sequence suffices for its class. It is immutable.
//
// A readout that was also trained on prefixes scores prefixes like whole sequences. Each
// prefix has a margin m, the temperature times the difference of the two largest scores: the
// logarithm of the ratio of their probabilities. With t, the prefix's samples over the samples
// of the median training sequence, 1 at most,
//
//	P(change until the end) = 1 / (1 + exp(z)),   z = c[0] + c[1] t + c[2] m + c[3] m t
//
// is the probability that the whole sequence gets another class than its prefix. The prefix
// suffices, and is called decided, if this probability is at most Most. The rule is a pure
// function of the prefix's scores and its length: no state is needed, and equal scores give
// equal bits.
type EarlyRule struct {
	Length       int64      `json:"length"`       // samples of the median training sequence
	Coefficients [4]float64 `json:"coefficients"` // c[0] to c[3]
	Most         float32    `json:"most"`         // a prefix is decided at most at this probability of a change; 0: none is
}

// Validate returns an error for invalid values.
func (r *EarlyRule) Validate() error {
	if r.Length < 1 {
		return fmt.Errorf("early: length %d, want at least 1 sample", r.Length)
	}
	for k, c := range r.Coefficients {
		if c != c || math.IsInf(c, 0) {
			return fmt.Errorf("early: coefficient %d is %v, want a finite number", k, c)
		}
	}
	if !(r.Most >= 0 && r.Most <= 1) {
		return fmt.Errorf("early: threshold %v, want a probability", r.Most)
	}
	return nil
}

// leastChange is the smallest returned probability, above 0 because 0 means no rule.
const leastChange = 0x1p-30

// Change returns P(change until the end) of a prefix with the given samples and margin, which
// is not negative: above 0, at most 1; 1 if the margin is no finite number. Every product and
// sum is rounded to float64 separately, in the order written; the exponential is
// canon.ExpNegative; so every platform gets the same bits.
func (r *EarlyRule) Change(samples int64, margin float64) float32 {
	if !(margin >= 0 && margin <= math.MaxFloat64) {
		return 1
	}
	z := r.logit(samples, margin)
	e := canon.ExpNegative(math.Abs(z))
	p := 1 / (1 + e)
	if z >= 0 {
		p = float64(e * p)
	}
	return float32(max(p, leastChange))
}

func (r *EarlyRule) logit(samples int64, margin float64) float64 {
	z, c := 0.0, &r.Coefficients
	for k, x := range r.Terms(samples, margin) {
		z = float64(z + float64(c[k]*x))
	}
	return min(max(z, -700), 700)
}

// Terms returns the factors of the coefficients.
func (r *EarlyRule) Terms(samples int64, margin float64) [4]float64 {
	t := min(1, float64(samples)/float64(r.Length))
	return [4]float64{1, t, margin, float64(margin * t)}
}

// Decided reports whether a prefix with the given probability of a change suffices.
func (r *EarlyRule) Decided(change float32) bool { return change <= r.Most }
