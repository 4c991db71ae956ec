package fit

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// kernel solves through the n x n matrix K = Z Z' of centered features: the cheaper way if
// there are fewer samples than features.
//
// Centering makes the vector of ones a null vector of K, and with it the intercept
// unpenalized. mass*11'/n is added to K, where mass is its mean diagonal: centered targets
// have no part in this direction, so the solution stays, but the matrix keeps its condition at
// small alpha. Without mass the term 1/(n*alpha) would drown the rest of the inverse's
// diagonal that leave-one-out needs.
//
// With weights each row of Z and y is multiplied by the root r of its sample's weight, and the
// features and targets are centered at their weighted means. Then r replaces the ones; both
// have the same length, the root of n.
type kernel struct {
	t      table
	of     targets
	y      dense.Matrix // centered targets, n x columns
	k      dense.Matrix // lower triangle
	mass   float64
	work   dense.Matrix
	groups []span // left out together; nil: none
}

func newKernel(ctx context.Context, t table, y targets, groups []span, progress func(float64)) (*kernel, error) {
	s := &kernel{t: t, of: y, y: y.centered(), k: dense.New(t.n, t.n), work: dense.New(t.n, t.n), groups: groups}
	for j0 := 0; j0 < t.features; j0 += panel {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part, err := t.block(j0)
		if err != nil {
			return nil, err
		}
		dense.AddKernel(s.k, part)
		progress(float64(j0+part.Cols) / float64(t.features))
	}
	roots := s.roots(span{0, t.n})
	if y.weights != nil {
		y.scale(s.y)
		for i := range t.n {
			for j := range i + 1 {
				s.k.Row(i)[j] *= roots[i] * roots[j]
			}
		}
	}
	for i := range t.n {
		s.mass += s.k.Row(i)[i] / float64(t.n)
	}
	for i := range t.n {
		for j := range i + 1 {
			s.k.Row(i)[j] += s.mass / float64(t.n) * (roots[i] * roots[j])
		}
	}
	return s, nil
}

// roots returns the roots of some samples' weights.
func (s *kernel) roots(part span) []float64 {
	r := make([]float64, part.size())
	for i, l := range s.of.labels[part.from:part.to] {
		r[i] = s.of.root(l)
	}
	return r
}

// solve returns the dual coefficients c = (K + alpha I)^-1 y, n x columns.
//
// The residuals are alpha*c. The hat matrix with free intercept is H = 11'/n + K (K + alpha
// I)^-1, so the left-out part of sample i, 1 - h_i, is alpha times the diagonal of (K + alpha
// I)^-1 without its part along the ones.
func (s *kernel) solve(ctx context.Context, alpha float64, leaveOneOut bool) (r solution, err error) {
	if alpha == 0 {
		return r, fmt.Errorf("fit: alpha = 0: %w: %d samples cannot determine %d weights, take a larger alpha",
			dense.ErrSingular, s.t.n, len(s.t.mean))
	}
	l := s.work
	for i := range l.Rows {
		copy(l.Row(i)[:i+1], s.k.Row(i))
	}
	if err = factorRidge(ctx, l, alpha); err != nil {
		return r, err
	}
	r.coef = s.y.Clone()
	dense.SolveLower(l, r.coef)
	dense.SolveLowerT(l, r.coef)
	if !leaveOneOut {
		s.of.scale(r.coef) // for weights
		return r, nil
	}
	if err = dense.InvertLower(ctx, l); err != nil {
		return r, err
	}
	ones := 1 / ((s.mass + alpha) * float64(s.t.n))
	r.residual = r.coef.Clone()
	for i := range r.residual.Rows {
		floats.Scale(alpha, r.residual.Row(i))
	}
	s.of.scale(r.coef)
	if s.groups != nil {
		r.groups = s.sweep(l, alpha, ones)
		return r, nil
	}
	r.rest = dense.ColumnSquares(l)
	for i, root := range s.roots(span{0, s.t.n}) {
		d := r.rest[i]
		r.rest[i] = alpha * rest(d-ones*(root*root), d)
	}
	return r, nil
}

// sweep visits the groups' blocks of I - H: alpha times the blocks of (K + alpha I)^-1 = l' l
// without their part along the ones.
func (s *kernel) sweep(l dense.Matrix, alpha, ones float64) sweep {
	return func(ctx context.Context, visit func(block) error) error {
		for _, g := range s.groups {
			if err := ctx.Err(); err != nil {
				return err
			}
			part := l.Sub(g.from, g.from, l.Rows-g.from, g.size())
			b := block{span: g, left: dense.New(g.size(), g.size()), whole: make([]float64, g.size())}
			for i := range g.size() {
				clear(part.Row(i)[i+1:]) // above the diagonal the values are undefined
			}
			dense.Multiply(b.left, alpha, part, true, part, false)
			roots := s.roots(g)
			for i := range g.size() {
				b.whole[i] = b.left.Row(i)[i]
				for j := range g.size() {
					b.left.Row(i)[j] -= alpha * ones * (roots[i] * roots[j])
				}
			}
			if err := visit(b); err != nil {
				return err
			}
		}
		return nil
	}
}

// rest returns left, the part of a prediction determined by other samples. If left is rounding
// of whole, the sample determines its own prediction and has no leave-one-out error at this
// alpha: not a number.
func rest(left, whole float64) float64 {
	if left < least*whole {
		return math.NaN()
	}
	return left
}

func (s *kernel) leave(groups []span) { s.groups = groups }

// weights returns Z' c, with c multiplied by the roots.
func (s *kernel) weights(coef dense.Matrix) (dense.Matrix, error) {
	w := dense.New(s.t.features, coef.Cols)
	for j0 := 0; j0 < s.t.features; j0 += panel {
		part, err := s.t.block(j0)
		if err != nil {
			return w, err
		}
		dense.MultiplySamples(w.Sub(j0, 0, part.Cols, w.Cols), 1, part, true, coef)
	}
	return w, nil
}
