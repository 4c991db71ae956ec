package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// verdict is the leave-one-out result of one alpha.
type verdict struct {
	Trial
	ridge dense.Matrix // scores of the ridge classifier, samples x columns, each sample left out
	other discriminant // if Trial.Discriminant is set; left-out scores, samples x classes
}

// perClass returns the ridge classifier's scores, one column per class: with two classes 0 and
// the single score.
func (v verdict) perClass() dense.Matrix {
	if v.ridge.Cols > 1 {
		return v.ridge
	}
	scores := dense.New(v.ridge.Rows, 2)
	for i := range scores.Rows {
		scores.Row(i)[1] = v.ridge.Row(i)[0]
	}
	return scores
}

func divideRows(m dense.Matrix, by []float64) {
	for i := range m.Rows {
		for c := range m.Row(i) {
			m.Row(i)[c] /= by[i]
		}
	}
}

// examine leaves every sample, or every group of samples, out of a solution. An error of the
// ridge classifier that is not a number makes Trial.Error infinite.
func examine(ctx context.Context, s solution, y targets, counts []int, discriminants bool) (v verdict, err error) {
	var p *projection
	if discriminants {
		p, err = project(ctx, s, y, counts)
		if err != nil && !errors.Is(err, dense.ErrSingular) {
			return v, err
		}
	}
	errs := s.residual.Clone()
	var scores dense.Matrix
	if p != nil {
		scores = dense.New(len(y.labels), len(counts))
	}
	if s.groups == nil {
		divideRows(errs, s.rest)
		if p != nil {
			p.failed = p.leaveOneOut(scores, s.rest, y.labels, counts)
		}
	} else if err := s.groups(ctx, func(b block) error {
		if p != nil && p.failed == nil {
			p.failed = p.withoutGroup(ctx, b, y.labels, counts, scores.Sub(b.from, 0, b.size(), scores.Cols))
		}
		return b.leave(ctx, errs.Sub(b.from, 0, b.size(), errs.Cols))
	}); err != nil {
		return v, err
	}
	v.Trial, v.ridge = judge(errs, y)
	if p == nil || math.IsInf(v.Error, 0) || errors.Is(p.failed, dense.ErrSingular) {
		return v, nil
	}
	if p.failed != nil {
		return v, p.failed
	}
	v.other = p.discriminant(scores, y, counts)
	v.Discriminant = &DiscriminantTrial{v.other.loss, v.other.accuracy}
	return v, nil
}

// judge summarizes the ridge classifier's leave-one-out errors, times the roots of the
// samples' weights (infinite if an error is not a number), and converts errors to scores.
// Numbers have no accuracy.
func judge(errs dense.Matrix, y targets) (t Trial, scores dense.Matrix) {
	scores = dense.New(errs.Rows, errs.Cols)
	for i, label := range y.labels {
		predicted, top := 0, math.Inf(-1)
		for c, e := range errs.Row(i) {
			t.Error += e * e
			s := y.at(i, c) - e/y.root(label)
			scores.Row(i)[c] = s
			if s > top {
				predicted, top = c, s
			}
		}
		if errs.Cols == 1 && top > 0 {
			predicted = 1
		}
		if predicted == label && y.numbers == nil {
			t.Accuracy++
		}
	}
	t.Error /= float64(len(y.labels) * errs.Cols)
	t.Accuracy /= float64(len(y.labels))
	if t.Error != t.Error {
		t.Error = math.Inf(1)
	}
	return t, scores
}

// plain returns the accuracy of the chosen readout if only the groups within outer groups are
// left out, instead of outer groups.
func (o *outer) plain(ctx context.Context, sys system, y targets, r Report) (float64, error) {
	sys.leave(o.within)
	s, err := sys.solve(ctx, r.Alpha, true)
	if err != nil {
		return 0, err
	}
	v, err := examine(ctx, s, y, r.PerClass, r.Discriminant)
	switch {
	case err != nil:
		return 0, err
	case !r.Discriminant:
		return v.Accuracy, nil
	case v.Discriminant != nil:
		return v.Discriminant.Accuracy, nil
	}
	return math.NaN(), nil // rounding: a part of a group leaves more to other samples than the group
}

// whitened visits the blocks of groups whose part of the hat matrix is 11'/n + u u', with u
// the result of whiten for their samples: some hundred samples at a time, or one group; with
// weights the roots replace the ones. means are the classes' means, whitened.
func whitened(groups []span, y targets, means dense.Matrix, whiten func(span) (dense.Matrix, error)) sweep {
	return func(ctx context.Context, visit func(block) error) error {
		for len(groups) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			some := 1
			for some < len(groups) && groups[some].to-groups[0].from <= panel {
				some++
			}
			u, err := whiten(span{groups[0].from, groups[some-1].to})
			if err != nil {
				return err
			}
			for _, g := range groups[:some] {
				part := u.Sub(g.from-groups[0].from, 0, g.size(), u.Cols)
				if g.size() > u.Cols {
					if err := visit(block{span: g, wide: &wide{part, y.labels[g.from:g.to], y, means, y.n}}); err != nil {
						return err
					}
					continue
				}
				b := block{span: g, left: dense.New(g.size(), g.size()), whole: make([]float64, g.size())}
				dense.Multiply(b.left, -1, part, false, part, true)
				for i := range g.size() {
					b.whole[i] = 1
					b.left.Row(i)[i]++
					for j := range g.size() {
						b.left.Row(i)[j] -= y.root(y.labels[g.from+i]) * y.root(y.labels[g.from+j]) / float64(y.n)
					}
				}
				if err := visit(b); err != nil {
					return err
				}
			}
			groups = groups[some:]
		}
		return nil
	}
}

// choose fills in the report's Alpha, Trials and Discriminant and returns the coefficients,
// the scores' means over the samples, and the left-out scores of each sample, one column per
// class, if any.
func choose(ctx context.Context, sys system, y targets, opt Options, r *Report) (coef dense.Matrix, bias []float64, scores dense.Matrix, err error) {
	if opt.steps() == 0 {
		r.Alpha = opt.Alphas[0]
		s, err := sys.solve(ctx, r.Alpha, false)
		return s.coef, y.mean, scores, err
	}
	discriminants := opt.Discriminant && y.weights == nil && y.numbers == nil && len(opt.Alphas) > 1 && slices.Min(r.PerClass) > 0
	ridge, other := candidate{least: math.Inf(1)}, candidate{least: math.Inf(1)}
	steps := opt.steps()
	_, err = search(len(opt.Alphas), func(i int) (float64, error) {
		s, err := sys.solve(ctx, opt.Alphas[i], true)
		if errors.Is(err, dense.ErrSingular) {
			return math.Inf(1), nil // alpha is too small for these features: not a candidate
		}
		if err != nil {
			return 0, err
		}
		v, err := examine(ctx, s, y, r.PerClass, discriminants)
		if err != nil {
			return 0, err
		}
		v.Alpha = opt.Alphas[i]
		ridge.offer(v.Error, v.Accuracy, v, s.coef)
		if d := v.Discriminant; d != nil {
			other.offer(d.LogLoss, d.Accuracy, v, s.coef)
		}
		if !math.IsInf(v.Error, 0) {
			r.Trials = append(r.Trials, v.Trial)
		}
		opt.Progress(min(1, float64(len(r.Trials))/float64(steps)))
		return v.Error, nil
	})
	if err != nil {
		return ridge.coef, nil, scores, err
	}
	if math.IsInf(ridge.least, 1) {
		return ridge.coef, nil, scores, fmt.Errorf("fit: no alpha in %g..%g gives a leave-one-out error: %w, take larger ones",
			opt.Alphas[0], opt.Alphas[len(opt.Alphas)-1], dense.ErrSingular)
	}
	slices.SortFunc(r.Trials, func(a, b Trial) int { return cmp.Compare(a.Alpha, b.Alpha) })
	if y.numbers != nil {
		r.Alpha = ridge.Alpha
		return ridge.coef, y.mean, ridge.ridge, nil
	}
	if other.accuracy <= ridge.accuracy {
		scores = ridge.perClass()
		r.Alpha, r.Temperature = ridge.Alpha, temperature(scores, y)
		return ridge.coef, y.mean, scores, nil
	}
	r.Alpha, r.Discriminant = other.Alpha, true
	r.Temperature = temperature(other.other.scores, y) / other.other.tau
	coef = dense.New(other.coef.Rows, other.coef.Cols)
	dense.Multiply(coef, 1, other.coef, false, other.other.mix, false)
	return coef, other.other.bias, scaled(other.other.scores, other.other.tau), nil
}

// scaled returns scores with the discriminant's scale, as in the readout.
func scaled(scores dense.Matrix, tau float64) dense.Matrix {
	scores = scores.Clone()
	for i := range scores.Rows {
		floats.Scale(tau, scores.Row(i))
	}
	return scores
}

// candidate is the best readout of a kind so far, the first of equals.
type candidate struct {
	least, accuracy float64
	verdict
	coef dense.Matrix
}

func (c *candidate) offer(value, accuracy float64, v verdict, coef dense.Matrix) {
	if value < c.least {
		*c = candidate{value, accuracy, v, coef}
	}
}
