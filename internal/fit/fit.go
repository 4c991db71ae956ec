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

// Options of Fit. The zero value: raw features, alpha chosen from
// DefaultAlphas.
type Options struct {
	// Alphas are the regularisations to choose from, ascending. One alone is
	// taken without leave-one-out, which costs more than half of the work.
	Alphas []float64
	// Standardise divides every feature by its deviation before the penalty
	// is applied. Constant features are taken out.
	Standardise bool
	// Soft, where set, divides by something larger than the deviation alone.
	// It is read with Standardise only.
	Soft *Soft
	// Discriminant also tries the regularised linear discriminant of every
	// alpha tried, at no further factorisation, and takes the one of least
	// leave-one-out log-loss where it predicts more samples than the ridge
	// classifier does. Nothing is tried where there is one alpha alone or a
	// class without a sample.
	Discriminant bool
	// Groups says of each sample which group it is of: samples that are not
	// independent of each other, such as windows of one series. They are left
	// out together. Samples of a group are next to each other. nil: each
	// sample is a group of its own.
	Groups []int
	// Outer says of each sample which larger group it is of, such as a machine
	// or a person. Each group of Groups is in one of these. Where it is set, all
	// samples of an outer group are left out together for everything that is
	// chosen, also where there is one alpha, and Report.Outer compares that with
	// leaving out Groups. nil: there are none.
	Outer []int
	// Coverage, where it is not 0, makes a readout with sets of classes, of which such
	// a share, below 1, hold the true class; see readout.Coverage. It needs leave-one-out, also
	// where there is one alpha.
	Coverage float64
	// CoverageByClass makes it a share of each class.
	CoverageByClass bool
	// MaxError, where it is not 0, makes a readout that abstains where it is not sure: of
	// its answers at most such a share is wrong, with a probability of Confidence; see
	// package abstain. It needs leave-one-out, also where there is one alpha.
	MaxError, Confidence float64
	// Priors, where they are not nil, are how often each class is expected, in any
	// unit: positive numbers in class order. The probabilities, and with them the
	// prediction, are then of these, not of the training's shares. They need
	// leave-one-out, also where there is one alpha. What is learnt stays the same, and
	// so do Trials.
	Priors []float64
	// ClassWeights, where they are not nil, are how much a sample of each class counts,
	// in any unit: positive numbers in class order. A sample of weight 2 counts as two
	// samples do: in the weights and the intercept, in the mean and the deviation of the
	// features, in Trial.Error and in the temperature. So the probabilities are of
	// classes as often as their samples' weights say. Leave-one-out is exact for weights
	// that stay as they are. The mean weight of the samples becomes 1. With weights no
	// discriminant is tried, which counts all classes alike by itself.
	ClassWeights []float64
	// Left makes Report.Left. It needs leave-one-out, also where there is one alpha.
	Left bool
	// Numbers, where they are not nil, are learnt instead of classes, one for each
	// sample: the readout is a regression, see readout.Interval. They have a magnitude of at most
	// 1e30. There is one class, whose name is that of what the numbers are of, and all
	// labels are 0. Coverage is then that of the intervals, and must be given.
	Numbers []float64
	// Memory bounds what a Learner holds, in bytes; 0: no bound.
	Memory int64
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

// system solves for one alpha. Its two implementations differ in the matrix
// they factor and give the same readout up to rounding.
type system interface {
	// solve returns coefficients and, if wanted, what leave-one-out needs.
	solve(ctx context.Context, alpha float64, leaveOneOut bool) (solution, error)
	// weights turns coefficients into features x columns weights.
	weights(coef dense.Matrix) (dense.Matrix, error)
	// leave says which samples solve leaves out together from now on; nil: none.
	leave(groups []span)
}

// solution is the ridge classifier of one alpha.
type solution struct {
	coef     dense.Matrix // in the system's own terms
	residual dense.Matrix // targets less fitted values, samples x columns, times targets.root
	// rest is what each sample leaves to the others to determine, 1 less the
	// hat matrix's diagonal; not a number where that is rounding.
	// It is for groups of one.
	rest []float64
	// groups visits what each group leaves to the others; nil: rest says it.
	groups sweep
	// centres are the fitted targets at the classes' means, classes x columns;
	// empty: the samples left out in turn are all, and tell.
	centres dense.Matrix
}

// Fit learns a readout from len(labels) samples; features is their row-major
// matrix and stays the caller's. alpha is the one of least mean squared
// leave-one-out error; see search for which of many alphas are tried. Classes
// without a sample are allowed, as long as two have some; such a class
// constantly scores -1.
//
// Time, with m the smaller of samples n and features F: n F m operations to
// set up; per alpha 2/3 m^3, or where n > F F^3/3 + n F^2. Memory: 2 m^2
// float64, and less than a float64 copy of the features. A cancelled context
// ends it within seconds.
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

// setupShare is the part of Fit's work before an alpha is tried.
func setupShare(f, classes, n int, opt Options) float64 {
	p := NewPlan(f, classes, n, opt)
	if p.Kernel {
		setup := float64(n) * float64(n) * float64(f) / 2
		return setup / p.SolveWork
	}
	setup := p.AddWork * float64(n)
	return setup / (setup + p.SolveWork)
}

// forClasses reports whether something is asked for that only classes have.
func (o Options) forClasses() bool {
	return o.MaxError != 0 || o.Priors != nil || o.ClassWeights != nil || o.CoverageByClass
}

func (o Options) scaling() scaling { return scaling{o.Standardise, o.Soft} }

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

// job is a fit once its samples are there: labels and groups are those of the
// samples left out in turn.
type job struct {
	classes []string
	labels  []int
	groups  []span
	opt     Options
	outer   *outer   // nil: none
	left    []int    // the samples' numbers; nil: all samples, in order
	numbers *numbers // of the samples left out in turn; nil: labels are learnt
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

// throughMoments uses the moments up.
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

// measureLeftOut reports how well the samples left out are predicted, by their scores. interval
// is that of a regression, else nil.
func (j *job) measureLeftOut(ctx context.Context, sys system, y targets, scores dense.Matrix, r *Report) (interval *readout.Interval, err error) {
	if j.numbers != nil {
		if interval, err = newInterval(j.opt.Coverage, y, scores); err != nil {
			return nil, err
		}
		r.Numbers = quality.OfNumbers(len(y.labels), func(i int) (number, value, low, high float64) {
			value = scores.Row(i)[0]
			return y.numbers[i], value, value + float64(interval.Low), value + float64(interval.High)
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

// addPromises adds what the readout promises of its sets and its answers, as the samples left
// out have shown.
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
