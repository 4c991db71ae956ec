package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/quality"
	"github.com/eusn-stream/eusn-stream/readout"
)

// Options are the options of Fit. The zero value: raw features, alpha chosen from
// DefaultAlphas.
type Options struct {
	// Alphas are the candidate regularizations, ascending. A single alpha is used without
	// leave-one-out, which costs more than half of the work.
	Alphas []float64
	// Standardize divides every feature by its deviation before the penalty is applied.
	// Constant features are removed.
	Standardize bool
	// Soft, if set, divides by more than the deviation. Soft is only read with Standardize.
	Soft *Soft
	// Discriminant also tries the regularized linear discriminant of every alpha, without a
	// further factorization, and takes the discriminant of least leave-one-out log-loss if it
	// predicts more samples than the ridge classifier. Nothing is tried with a single alpha or
	// a class without a sample.
	Discriminant bool
	// Groups is the group of each sample, for samples that depend on each other, such as
	// windows of one series. A group is left out as a whole. Samples of a group are adjacent.
	// nil: each sample is a group.
	Groups []int
	// Outer is the larger group of each sample, such as a machine or a person. Each group of
	// Groups lies within one outer group. If set, all samples of an outer group are left out
	// together for every choice, also with a single alpha, and Report.Outer compares the
	// result with leaving out Groups. nil: no outer groups.
	Outer []int
	// Coverage, if not 0, makes a readout with sets of classes; a share Coverage of the sets,
	// below 1, holds the true class; see readout.Coverage. Coverage needs leave-one-out, also
	// with a single alpha.
	Coverage float64
	// CoverageByClass applies Coverage to each class separately.
	CoverageByClass bool
	// MaxError, if not 0, makes a readout that abstains if uncertain: at most a share MaxError
	// of its answers is wrong, with a probability of Confidence; see package abstain. MaxError
	// needs leave-one-out, also with a single alpha.
	MaxError, Confidence float64
	// Priors, if not nil, are the expected shares of the classes, in any unit: positive
	// numbers in class order. The probabilities, and with them the prediction, then follow the
	// priors instead of the training's shares. Priors need leave-one-out, also with a single
	// alpha. The weights and Trials stay the same.
	Priors []float64
	// ClassWeights, if not nil, are the weights of a sample of each class, in any unit:
	// positive numbers in class order. A sample of weight 2 counts like two samples: in the
	// weights and the intercept, in the mean and the deviation of the features, in Trial.Error
	// and in the temperature. The probabilities then assume classes as frequent as their
	// samples' weights. Leave-one-out is exact for constant weights. The mean weight of the
	// samples becomes 1. With weights no discriminant is tried, because a discriminant counts
	// all classes alike.
	ClassWeights []float64
	// Left requests Report.Left. Left needs leave-one-out, also with a single alpha.
	Left bool
	// Numbers, if not nil, are learned instead of classes, one for each sample: the readout is
	// a regression, see readout.Interval. Their magnitude is at most 1e30. There is one class,
	// named after the predicted quantity, and all labels are 0. Coverage then applies to the
	// intervals, and is required.
	Numbers []float64
	// Clip limits the predicted numbers to the range of Numbers; see readout.Interval.Clip.
	Clip bool
	// Memory limits the memory of a Learner, in bytes; 0: no limit.
	Memory int64
	// Progress, if set, receives the share of the work done, 0 to 1, ascending.
	Progress func(done float64)
}

// DefaultAlphas returns 10^-3 to 10^6 in half decades.
func DefaultAlphas() []float64 {
	a := make([]float64, 19)
	for i := range a {
		a[i] = math.Pow(10, float64(i-6)/2)
	}
	return a
}

// ErrConstant reports that no feature varies, so that nothing can be learned.
var ErrConstant = errors.New("features are constant")

// system solves for one alpha. Its two implementations factor different matrices and give the
// same readout up to rounding.
type system interface {
	// solve returns coefficients and, if requested, the data for leave-one-out.
	solve(ctx context.Context, alpha float64, leaveOneOut bool) (solution, error)
	// weights turns coefficients into features x columns weights.
	weights(coef dense.Matrix) (dense.Matrix, error)
	// leave sets the groups that solve leaves out from now on; nil: none.
	leave(groups []span)
}

// solution is the ridge classifier of one alpha.
type solution struct {
	coef     dense.Matrix // in the system's own coordinates
	residual dense.Matrix // targets less fitted values, samples x columns, times targets.root
	// rest is the part of each sample's prediction determined by other samples, 1 less the hat
	// matrix's diagonal; not a number if only rounding. rest is for groups of one.
	rest []float64
	// groups visits the blocks of I - H of all groups; nil: use rest.
	groups sweep
	// centers are the fitted targets at the classes' means, classes x columns; empty: computed
	// from the left-out samples, which are all samples.
	centers dense.Matrix
}

// Fit learns a readout from len(labels) samples; features is their row-major matrix and stays
// the caller's. alpha has the least mean squared leave-one-out error; see search for the tried
// alphas. Classes without a sample are allowed, as long as two have some; a class without a
// sample constantly scores -1.
//
// Time, with m the smaller of samples n and features F: n F m operations to set up; per alpha
// 2/3 m^3, or if n > F F^3/3 + n F^2. Memory: 2 m^2 float64, and less than a float64 copy of
// the features. A canceled context ends Fit within seconds.
func Fit(ctx context.Context, features []float32, labels []int, classes []string, opt Options) (*readout.Linear, Report, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, Report{}, err
	}
	numbers, err := newNumbers(opt.Numbers, len(labels), len(classes), opt.Coverage, opt.forClasses())
	if err != nil {
		return nil, Report{}, err
	}
	counts, err := checkFit(features, labels, classes, numbers != nil)
	if err != nil {
		return nil, Report{}, err
	}
	n := len(labels)
	f := len(features) / n
	weights, err := weightsOf(opt.ClassWeights, classes, counts)
	if err != nil {
		return nil, Report{}, err
	}
	groups, err := spans(opt.Groups, n)
	if err != nil {
		return nil, Report{}, err
	}
	j := job{classes: slices.Clone(classes), labels: labels, groups: groups, opt: opt, numbers: numbers}
	if opt.Outer != nil {
		if _, err := opt.groups(n); err != nil {
			return nil, Report{}, err
		}
		if j.outer, err = newOuter(opt.Outer, opt.Groups, n); err != nil {
			return nil, Report{}, err
		}
		j.groups = j.outer.groups
	}
	if n <= f {
		return j.throughKernel(ctx, &samples{features: f, n: n, x: features})
	}
	var raw *space
	if opt.scaling().clip() > 0 {
		if err := opt.Soft.check(f); err != nil {
			return nil, Report{}, err
		}
		m := newMeasures(f)
		m.weights = weights
		m.add(features, labels)
		s := m.space(opt.scaling())
		clipped := make([]float32, len(features))
		s.clip.samples(clipped, features)
		raw, features = &s, clipped
	}
	g := newMoments(f, len(counts))
	g.weights = weights
	share := setupShare(f, len(classes), n, opt)
	for i0 := 0; i0 < n; i0 += panel {
		if err := ctx.Err(); err != nil {
			return nil, Report{}, err
		}
		end := min(n, i0+panel)
		g.add(features[i0*f:end*f], labels[i0:end])
		if numbers != nil {
			g.addNumbers(features[i0*f:end*f], numbers.some(nil, i0, end-i0))
		}
		opt.Progress(share * float64(end) / float64(n))
	}
	j.opt.Progress = func(done float64) { opt.Progress(share + (1-share)*done) }
	return j.throughMoments(ctx, sums{all: g, kept: features, raw: raw})
}

// setupShare returns the share of Fit's work before the first alpha.
func setupShare(f, classes, n int, opt Options) float64 {
	p := NewPlan(f, classes, n, opt)
	if p.Kernel {
		setup := float64(n) * float64(n) * float64(f) / 2
		return setup / p.SolveWork
	}
	setup := p.AddWork * float64(n)
	return setup / (setup + p.SolveWork)
}

// forClasses reports whether an option requires classes.
func (o Options) forClasses() bool {
	return o.MaxError != 0 || o.Priors != nil || o.ClassWeights != nil || o.CoverageByClass
}

func (o Options) scaling() scaling { return scaling{o.Standardize, o.Soft} }

func (o Options) withDefaults() (Options, error) {
	if len(o.Alphas) == 0 {
		o.Alphas = DefaultAlphas()
	}
	if o.Progress == nil {
		o.Progress = func(float64) {}
	}
	if o.Coverage != 0 && !(o.Coverage > 0 && o.Coverage < 1) {
		return o, fmt.Errorf("fit: coverage %v, want a share above 0 and below 1", o.Coverage)
	}
	if o.MaxError != 0 {
		if err := (&readout.AbstainRule{MaxError: o.MaxError, Confidence: o.Confidence, Above: 1}).Validate(); err != nil {
			return o, fmt.Errorf("fit: %w", err)
		}
		if o.Priors != nil {
			return o, errors.New("fit: a largest error, and priors: errors are counted as often as the classes are there: leave the priors out")
		}
	}
	return o, CheckAlphas(o.Alphas)
}

// job is a fit of collected samples: labels and groups belong to the left-out samples.
type job struct {
	classes []string
	labels  []int
	groups  []span
	opt     Options
	outer   *outer   // nil: none
	left    []int    // the samples' numbers; nil: all samples, in order
	numbers *numbers // of the left-out samples; nil: labels are learned
}

// throughKernel keeps all samples.
func (j job) throughKernel(ctx context.Context, r *samples) (*readout.Linear, Report, error) {
	if err := j.opt.Soft.check(r.features); err != nil {
		return nil, Report{}, err
	}
	counts := make([]int, len(j.classes))
	for _, l := range j.labels {
		counts[l]++
	}
	if err := checkCounts(counts, j.classes, j.numbers != nil); err != nil {
		return nil, Report{}, err
	}
	weights, err := weightsOf(j.opt.ClassWeights, j.classes, counts)
	if err != nil {
		return nil, Report{}, err
	}
	if weights != nil {
		r.weights = make([]float64, r.n)
		for i, l := range j.labels {
			r.weights[i] = weights[l]
		}
	}
	t, err := newTable(r, j.opt.scaling())
	if err != nil {
		return nil, Report{}, err
	}
	y := j.numbers.targets(j.labels, counts, weights)
	return j.finish(ctx, t.space, counts, y, func() (system, error) {
		share := setupShare(r.features, len(j.classes), r.n, j.opt)
		progress := j.opt.Progress
		j.opt.Progress = func(done float64) { progress(share + (1-share)*done) }
		return newKernel(ctx, t, y, j.groups, func(done float64) { progress(share * done) })
	})
}

// throughMoments consumes the moments.
func (j job) throughMoments(ctx context.Context, g sums) (*readout.Linear, Report, error) {
	if err := errors.Join(j.opt.Soft.check(g.all.features()), checkCounts(g.all.counts, j.classes, j.numbers != nil)); err != nil {
		return nil, Report{}, err
	}
	counts, y := g.all.counts, j.numbers.targets(j.labels, g.all.counts, g.all.weights)
	sys, err := newPrimal(g, y, j.groups, j.opt.scaling())
	if err != nil {
		return nil, Report{}, err
	}
	defer sys.gram.close()
	return j.finish(ctx, sys.space, counts, y, func() (system, error) { return sys, nil })
}

func (j *job) finish(ctx context.Context, s space, counts []int, y targets, open func() (system, error)) (*readout.Linear, Report, error) {
	fail := func(err error) (*readout.Linear, Report, error) { return nil, Report{}, err }
	n := y.n
	r := Report{Samples: n, Weights: y.weights, Features: len(s.mean), Constant: s.constants(), PerClass: counts, Kernel: n <= len(s.mean)}
	if r.Constant == r.Features {
		return fail(fmt.Errorf("fit: %w: all %d over %d samples", ErrConstant, r.Features, n))
	}
	if err := checkPriors(j.opt.Priors, j.classes, counts); err != nil {
		return fail(err)
	}
	sys, err := open()
	if err != nil {
		return fail(err)
	}
	if err := j.reportLeftOut(&r); err != nil {
		return fail(err)
	}
	coef, bias, scores, err := choose(ctx, sys, y, j.opt, &r)
	if err == nil && j.opt.Priors != nil {
		bias, err = expect(j.opt.Priors, r.shares(), r.Temperature, bias, scores)
	}
	var interval *readout.Interval
	if err == nil {
		interval, err = j.measureLeftOut(ctx, sys, y, scores, &r)
	}
	if err != nil {
		return fail(err)
	}
	w, err := sys.weights(coef)
	if err != nil {
		return fail(err)
	}
	linear, err := newLinear(j.classes, s, w, bias, interval)
	if err != nil {
		return fail(err)
	}
	linear.Temperature = r.Temperature
	if j.opt.Left {
		r.Left = &Left{j.left, scores}
	}
	if err := j.addPromises(linear, &r, y.labels, scores); err != nil {
		return fail(err)
	}
	j.opt.Progress(1)
	return linear, r, nil
}

// reportLeftOut reports which samples are left out in turn.
func (j *job) reportLeftOut(r *Report) error {
	if j.opt.steps() == 0 {
		return nil
	}
	r.given = len(j.opt.Alphas) == 1
	r.Groups = len(j.groups)
	if len(j.labels) < r.Samples {
		r.LeftOutSamples = len(j.labels)
	}
	if r.Groups == 1 && r.LeftOutSamples == 0 {
		return errors.New("fit: all samples are of one group: leaving it out leaves nothing to choose alpha by, give one alpha")
	}
	return nil
}

// measureLeftOut reports how well the left-out samples are predicted, by their scores.
// interval is nil unless numbers are learned.
func (j *job) measureLeftOut(ctx context.Context, sys system, y targets, scores dense.Matrix, r *Report) (interval *readout.Interval, err error) {
	if j.numbers != nil {
		if interval, err = newInterval(j.opt.Coverage, y, scores); err != nil {
			return nil, err
		}
		limit := func(x float64) float64 { return x }
		if j.opt.Clip {
			interval.Clip = &[2]float32{-up(-j.numbers.least), up(j.numbers.most)}
			limit = func(x float64) float64 { return max(j.numbers.least, min(j.numbers.most, x)) }
		}
		r.Numbers = quality.OfNumbers(len(y.labels), func(i int) (number, value, low, high float64) {
			score := scores.Row(i)[0]
			return y.numbers[i], limit(score), limit(score + float64(interval.Low)), limit(score + float64(interval.High))
		})
		return interval, nil
	}
	if j.opt.steps() > 0 {
		if r.Quality, err = quality.New(j.classes, y.labels, scores.Data, r.Temperature); err != nil {
			return nil, err
		}
	}
	if j.outer != nil {
		r.Outer = j.outer.count(scores, y.labels)
		r.Outer.Plain, err = j.outer.plain(ctx, sys, y, *r)
	}
	return nil, err
}

// addPromises adds the guarantees of the readout's sets and answers, from the left-out
// samples.
func (j *job) addPromises(linear *readout.Linear, r *Report, labels []int, scores dense.Matrix) (err error) {
	if j.opt.Coverage != 0 && linear.Interval == nil {
		if linear.Coverage, r.Sets, err = newCoverage(j.opt.Coverage, j.opt.CoverageByClass, j.classes, labels, scores, r.Temperature); err != nil {
			return err
		}
	}
	if j.opt.MaxError != 0 {
		linear.Abstain, r.Answers, err = newAbstain(j.opt.MaxError, j.opt.Confidence, labels, scores, r.Temperature)
	}
	return err
}
