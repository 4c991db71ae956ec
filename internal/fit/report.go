package fit

import (
	"fmt"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/abstain"
	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/quality"
)

// Report describes how a readout was fitted.
type Report struct {
	Samples        int       `json:"samples"`
	Features       int       `json:"features"`
	Constant       int       `json:"constant"` // removed features, which never vary
	PerClass       []int     `json:"per_class"`
	Weights        []float64 `json:"class_weights,omitempty"` // of a sample of each class, 1 in the mean over the samples; nil: all count alike
	Alpha          float64   `json:"alpha"`
	Trials         []Trial   `json:"trials,omitempty"`           // tried alphas, ascending; none if there was no choice
	Groups         int       `json:"groups,omitempty"`           // of samples left out together; 0: each sample separately
	LeftOutSamples int       `json:"left_out_samples,omitempty"` // samples in the trials, each left out of all; 0: all
	Kernel         bool      `json:"kernel"`                     // solved through the n x n kernel, not the features' Gram matrix

	Discriminant bool `json:"discriminant,omitempty"` // the readout is the linear discriminant, not the ridge classifier

	Temperature float64 `json:"temperature,omitempty"` // the readout's, see readout.Linear; 0: unknown without leave-one-out

	Quality *quality.Report  `json:"quality,omitempty"` // of left-out samples, at the temperature; nil if none were left out
	Sets    *quality.Sets    `json:"sets,omitempty"`    // of left-out samples; nil without Options.Coverage. The thresholds come from the same samples, so that the coverage is the requested coverage
	Numbers *quality.Numbers `json:"numbers,omitempty"` // of left-out samples; nil if classes were learned. The interval comes from the same samples
	Answers *abstain.Count   `json:"answers,omitempty"` // of left-out samples; nil without Options.MaxError
	// Adaptive reports the effect of labels in arrival order on the sets; nil: no order is
	// known here.
	Adaptive *adaptive.Report `json:"adaptive,omitempty"`
	Outer    *OuterReport     `json:"-"` // nil without Options.Outer
	Left     *Left            `json:"-"` // nil without Options.Left
	given    bool             // no choice of alpha
}

// Left holds the scores of the left-out samples, each by the readout of all other samples, at
// the scale of the readout's Temperature.
type Left struct {
	Samples []int        // their numbers, in the order of Add; nil: all, in this order
	Scores  dense.Matrix // a row for each sample, a column for each class; for two classes 0 and the score
}

// LeftOut returns the leave-one-out accuracy of the chosen readout; false if there was no
// choice.
func (r Report) LeftOut() (accuracy float64, ok bool) {
	for _, t := range r.Trials {
		if t.Alpha == r.Alpha && r.Discriminant {
			return t.Discriminant.Accuracy, true
		} else if t.Alpha == r.Alpha {
			return t.Accuracy, true
		}
	}
	return 0, false
}

// shares returns the class shares that the readout's probabilities assume: the training's,
// with the samples' weights, or equal shares for the discriminant.
func (r Report) shares() []float64 {
	s := make([]float64, len(r.PerClass))
	for k, n := range r.PerClass {
		if s[k] = weightAt(r.Weights, k) * float64(n); r.Discriminant {
			s[k] = 1
		}
	}
	return s
}

// String describes the chosen readout and how it was chosen.
func (r Report) String() string {
	of := "by leave-one-out"
	if r.Outer != nil {
		of = fmt.Sprintf("by leaving out each of %d groups", len(r.Outer.Groups))
	}
	if r.given {
		of = "given, and tried " + of
	}
	if r.LeftOutSamples > 0 {
		of += fmt.Sprintf(" of %d", r.LeftOutSamples)
	}
	if n := r.Numbers; n != nil {
		if r.Groups > 0 {
			of = strings.Replace(of, "by leave-one-out", fmt.Sprintf("by leaving out each of %d groups", r.Groups), 1)
		}
		return fmt.Sprintf("%.4g, %s (root mean squared error %.4g)", r.Alpha, of, n.RMSE)
	}
	for _, t := range r.Trials {
		switch {
		case t.Alpha != r.Alpha:
		case r.Discriminant:
			return fmt.Sprintf("%.4g, linear discriminant %s (accuracy %.4f, log-loss %.4g)", t.Alpha, of, t.Discriminant.Accuracy, t.Discriminant.LogLoss)
		default:
			return fmt.Sprintf("%.4g, %s (accuracy %.4f, mean squared error %.4g)", t.Alpha, of, t.Accuracy, t.Error)
		}
	}
	return fmt.Sprintf("%.4g, given", r.Alpha)
}

// Trial is the exact leave-one-out result of one alpha: every sample is predicted by the
// readout fitted to all other samples, or to all other groups. Only the features' scale still
// uses all samples.
type Trial struct {
	Alpha    float64 `json:"alpha"`
	Error    float64 `json:"error"`    // mean squared error over weighted samples and columns
	Accuracy float64 `json:"accuracy"` // share of samples whose class is predicted; 0 for numbers

	Discriminant *DiscriminantTrial `json:"discriminant,omitempty"` // nil if not requested, or if alpha is too small
}

// DiscriminantTrial is the exact leave-one-out result of the linear
// discriminant of one alpha.
type DiscriminantTrial struct {
	LogLoss  float64 `json:"log_loss"` // mean negative log-likelihood, nats
	Accuracy float64 `json:"accuracy"`
}
