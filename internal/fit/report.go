package fit

import (
	"fmt"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/abstain"
	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/quality"
)

// Report says how a readout was fitted.
type Report struct {
	Samples        int       `json:"samples"`
	Features       int       `json:"features"`
	Constant       int       `json:"constant"` // features taken out because they never vary
	PerClass       []int     `json:"per_class"`
	Weights        []float64 `json:"class_weights,omitempty"` // of a sample of each class, 1 in the mean over the samples; nil: all count alike
	Alpha          float64   `json:"alpha"`
	Trials         []Trial   `json:"trials,omitempty"`           // alphas tried, ascending; none where there was no choice
	Groups         int       `json:"groups,omitempty"`           // of samples left out together; 0: each by itself
	LeftOutSamples int       `json:"left_out_samples,omitempty"` // samples the trials are of, each left out of all; 0: all
	Kernel         bool      `json:"kernel"`                     // solved through the n x n kernel, not the features' Gram matrix

	Discriminant bool `json:"discriminant,omitempty"` // the readout is the linear discriminant, not the ridge classifier

	Temperature float64 `json:"temperature,omitempty"` // the readout's, see readout.Linear; 0: unknown, for want of leave-one-out

	Quality *quality.Report  `json:"quality,omitempty"` // of what was left out, at the temperature; nil where nothing was
	Sets    *quality.Sets    `json:"sets,omitempty"`    // of what was left out; nil without Options.Coverage. The thresholds come of the same samples, so that the coverage is what was asked for
	Numbers *quality.Numbers `json:"numbers,omitempty"` // of what was left out; nil where classes were learnt. The interval comes of the same samples
	Answers *abstain.Count   `json:"answers,omitempty"` // of what was left out; nil without Options.MaxError
	// Adaptive is what labels in the order in which they came made of the sets; nil: they
	// have no order here.
	Adaptive *adaptive.Report `json:"adaptive,omitempty"`
	Outer    *OuterReport     `json:"-"` // nil where Options.Outer was
	Left     *Left            `json:"-"` // nil without Options.Left
	given    bool             // there was no choice of alpha
}

// Left is what the samples that were left out in turn score, each by the readout of all
// others, at the scale of the readout's Temperature.
type Left struct {
	Samples []int        // their numbers, in the order in which they were added; nil: all, in that order
	Scores  dense.Matrix // a row for each, a column for each class; of two classes 0 and the score
}

// LeftOut is the leave-one-out accuracy of the readout that was taken; false
// where there was no choice.
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

// shares are those of the classes that the readout's probabilities are of: the
// training's, as the samples' weights have them, or equal ones for the discriminant.
func (r Report) shares() []float64 {
	s := make([]float64, len(r.PerClass))
	for k, n := range r.PerClass {
		if s[k] = weightAt(r.Weights, k) * float64(n); r.Discriminant {
			s[k] = 1
		}
	}
	return s
}

// String says which readout was taken, and how it was chosen.
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

// Trial is the exact leave-one-out result of one alpha: every sample is
// predicted by the readout fitted to all others, or to all other groups. The
// features' scale alone is still that of all samples.
type Trial struct {
	Alpha    float64 `json:"alpha"`
	Error    float64 `json:"error"`    // mean squared error over samples, by their weights, and columns
	Accuracy float64 `json:"accuracy"` // share of samples whose class is predicted; 0 for numbers

	Discriminant *DiscriminantTrial `json:"discriminant,omitempty"` // nil where it was not asked for, or alpha is too small for it
}

// DiscriminantTrial is the exact leave-one-out result of the linear
// discriminant of one alpha.
type DiscriminantTrial struct {
	LogLoss  float64 `json:"log_loss"` // mean negative log-likelihood, nats
	Accuracy float64 `json:"accuracy"`
}
