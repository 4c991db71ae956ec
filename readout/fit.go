package readout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// Options of Fit. The zero value: raw features, alpha chosen from
// DefaultAlphas.
type Options struct {
	// Alphas are the regularisations to choose from, ascending. One alone is
	// taken without leave-one-out, which costs more than half of the work.
	Alphas []float64
	// Standardise divides every feature by its deviation before the penalty
	// is applied. Constant features are taken out.
	Standardise bool
	// Discriminant also tries the regularised linear discriminant of every
	// alpha tried, at no further factorisation, and takes the one of least
	// leave-one-out log-loss where it predicts more samples than the ridge
	// classifier does. Nothing is tried where there is one alpha alone or a
	// class without a sample.
	Discriminant bool
	// Progress, where set, is told the share of the work done, 0 to 1,
	// ascending.
	Progress func(done float64)
}

// DefaultAlphas is 10^-3 to 10^6 in half decades.
func DefaultAlphas() []float64 {
	a := make([]float64, 19)
	for i := range a {
		a[i] = math.Pow(10, float64(i-6)/2)
	}
	return a
}

// ErrConstant says that no feature varies, so that there is nothing to learn from.
var ErrConstant = errors.New("features are constant")

// Report says how a head was fitted.
type Report struct {
	Samples  int     `json:"samples"`
	Features int     `json:"features"`
	Constant int     `json:"constant"` // features taken out because they never vary
	PerClass []int   `json:"per_class"`
	Alpha    float64 `json:"alpha"`
	Trials   []Trial `json:"trials,omitempty"` // alphas tried, ascending; none where there was no choice
	Kernel   bool    `json:"kernel"`           // solved through the n x n kernel, not the features' Gram matrix

	Discriminant bool `json:"discriminant,omitempty"` // the head is the linear discriminant, not the ridge classifier

	Temperature float64 `json:"temperature,omitempty"` // the head's, see Linear; 0: unknown, for want of leave-one-out
}

// LeftOut is the leave-one-out accuracy of the head that was taken; false
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

// Trial is the exact leave-one-out result of one alpha: every sample is
// predicted by the head fitted to all others. The features' scale alone is
// still that of all samples.
type Trial struct {
	Alpha    float64 `json:"alpha"`
	Error    float64 `json:"error"`    // mean squared error over samples and columns
	Accuracy float64 `json:"accuracy"` // share of samples whose class is predicted

	Discriminant *DiscriminantTrial `json:"discriminant,omitempty"` // nil where it was not asked for, or alpha is too small for it
}

// DiscriminantTrial is the exact leave-one-out result of the linear
// discriminant of one alpha.
type DiscriminantTrial struct {
	LogLoss  float64 `json:"log_loss"` // mean negative log-likelihood, nats
	Accuracy float64 `json:"accuracy"`
}

// system solves for one alpha. Its two implementations differ in the matrix
// they factor and give the same head up to rounding.
type system interface {
	// solve returns coefficients and, if wanted, what leave-one-out needs.
	solve(ctx context.Context, alpha float64, leaveOneOut bool) (solution, error)
	// weights turns coefficients into features x columns weights.
	weights(coef dense.Matrix) dense.Matrix
}

// solution is the ridge classifier of one alpha.
type solution struct {
	coef     dense.Matrix // in the system's own terms
	residual dense.Matrix // targets less fitted values, samples x columns
	// rest is what each sample leaves to the others to determine, 1 less the
	// hat matrix's diagonal; not a number where that is rounding.
	rest []float64
}

// Fit learns a head from len(labels) samples; features is their row-major
// matrix and stays the caller's. alpha is the one of least mean squared
// leave-one-out error; see search for which of many alphas are tried. Classes
// without a sample are allowed, as long as two have some; such a class
// constantly scores -1.
//
// Time, with m the smaller of samples n and features F: n F m operations to
// set up; per alpha 2/3 m^3, and n F^2 more where n > F. Memory: 2 m^2
// float64, and less than a float64 copy of the features. A cancelled context
// ends it within seconds.
func Fit(ctx context.Context, features []float32, labels []int, classes []string, opt Options) (*Linear, Report, error) {
	fail := func(err error) (*Linear, Report, error) { return nil, Report{}, err }
	if len(opt.Alphas) == 0 {
		opt.Alphas = DefaultAlphas()
	}
	if opt.Progress == nil {
		opt.Progress = func(float64) {}
	}
	counts, err := checkFit(features, labels, classes, opt.Alphas)
	if err != nil {
		return fail(err)
	}

	n := len(labels)
	t := newTable(features, n, opt.Standardise)
	y := targets{labels, targetMeans(counts)}
	r := Report{Samples: n, Features: len(t.mean), Constant: t.constants(), PerClass: counts, Kernel: n <= len(t.mean)}
	if r.Constant == r.Features {
		return fail(fmt.Errorf("readout: %w: all %d over %d samples", ErrConstant, r.Features, n))
	}
	var sys system
	if r.Kernel {
		sys, err = newKernel(ctx, t, y, opt.Progress)
	} else {
		sys, err = newNormal(ctx, t, y, opt.Progress)
	}
	if err != nil {
		return fail(err)
	}
	coef, bias, err := choose(ctx, sys, y, opt, &r)
	if err != nil {
		return fail(err)
	}
	head, err := newLinear(slices.Clone(classes), t.space, sys.weights(coef), bias)
	if err != nil {
		return fail(err)
	}
	head.Temperature = r.Temperature
	opt.Progress(1)
	return head, r, nil
}

// setupShare is the part of the progress given to setting up the system.
const setupShare = 0.25

// choose fills in the report's Alpha, Trials and Discriminant and returns the
// coefficients and the scores' means over the samples.
func choose(ctx context.Context, sys system, y targets, opt Options, r *Report) (dense.Matrix, []float64, error) {
	if len(opt.Alphas) == 1 {
		r.Alpha = opt.Alphas[0]
		s, err := sys.solve(ctx, r.Alpha, false)
		return s.coef, y.mean, err
	}
	discriminants := opt.Discriminant && slices.Min(r.PerClass) > 0
	ridge, other := candidate{least: math.Inf(1)}, candidate{least: math.Inf(1)}
	var best solution // ridge's
	var rotation discriminant
	steps := searchSteps(len(opt.Alphas))
	_, err := search(len(opt.Alphas), func(i int) (float64, error) {
		s, err := sys.solve(ctx, opt.Alphas[i], true)
		if errors.Is(err, dense.ErrSingular) {
			return math.Inf(1), nil // too small an alpha for these features: not a candidate
		}
		if err != nil {
			return 0, err
		}
		t := judge(s, y)
		t.Alpha = opt.Alphas[i]
		if ridge.offer(t.Error, t.Accuracy, t.Alpha, s.coef) {
			best = s
		}
		if discriminants && !math.IsInf(t.Error, 0) {
			d, err := discriminate(ctx, s, y, r.PerClass)
			if err == nil {
				t.Discriminant = &DiscriminantTrial{d.loss, d.accuracy}
				if other.offer(d.loss, d.accuracy, t.Alpha, s.coef) {
					rotation = d
				}
			} else if !errors.Is(err, dense.ErrSingular) {
				return 0, err
			}
		}
		if !math.IsInf(t.Error, 0) {
			r.Trials = append(r.Trials, t)
		}
		opt.Progress(setupShare + (1-setupShare)*min(1, float64(len(r.Trials))/float64(steps)))
		return t.Error, nil
	})
	if err != nil {
		return ridge.coef, nil, err
	}
	if math.IsInf(ridge.least, 1) {
		return ridge.coef, nil, fmt.Errorf("readout: no alpha in %g..%g gives a leave-one-out error: %w, take larger ones",
			opt.Alphas[0], opt.Alphas[len(opt.Alphas)-1], dense.ErrSingular)
	}
	slices.SortFunc(r.Trials, func(a, b Trial) int { return cmp.Compare(a.Alpha, b.Alpha) })
	if other.accuracy <= ridge.accuracy {
		r.Alpha, r.Temperature = ridge.alpha, temperature(leftOut(best, y), y.labels)
		return ridge.coef, y.mean, nil
	}
	r.Alpha, r.Discriminant = other.alpha, true
	r.Temperature = temperature(rotation.scores, y.labels) / rotation.tau
	coef := dense.New(other.coef.Rows, other.coef.Cols)
	dense.Multiply(coef, 1, other.coef, false, rotation.mix, false)
	return coef, rotation.bias, nil
}

// candidate is the best head of one kind so far, the first of equals.
type candidate struct {
	least, accuracy, alpha float64
	coef                   dense.Matrix
}

func (c *candidate) offer(value, accuracy, alpha float64, coef dense.Matrix) bool {
	if !(value < c.least) {
		return false
	}
	*c = candidate{value, accuracy, alpha, coef}
	return true
}

// leftOut is the ridge classifier's leave-one-out scores, one column per class:
// with two classes 0 and the one score.
func leftOut(s solution, y targets) dense.Matrix {
	columns := s.residual.Cols
	scores := dense.New(len(y.labels), max(2, columns))
	for i, label := range y.labels {
		row := scores.Row(i)
		for c, e := range s.residual.Row(i) {
			row[len(row)-columns+c] = y.sign(label, c) - e/s.rest[i]
		}
	}
	return scores
}

// judge sums up the ridge classifier's leave-one-out errors; infinite where
// one is not a number.
func judge(s solution, y targets) Trial {
	var t Trial
	columns := s.residual.Cols
	for i, label := range y.labels {
		predicted, top := 0, math.Inf(-1)
		for c, e := range s.residual.Row(i) {
			e /= s.rest[i]
			t.Error += e * e
			if s := y.sign(label, c) - e; s > top {
				predicted, top = c, s
			}
		}
		if columns == 1 && top > 0 {
			predicted = 1
		}
		if predicted == label {
			t.Accuracy++
		}
	}
	t.Error /= float64(len(y.labels) * columns)
	t.Accuracy /= float64(len(y.labels))
	if t.Error != t.Error {
		t.Error = math.Inf(1)
	}
	return t
}
