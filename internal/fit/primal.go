package fit

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// primal solves the normal equations through the F x F matrix G = Z' Z of centered features:
// the cheaper way if samples outnumber features. Only the samples to leave out in turn are
// needed.
type primal struct {
	space
	n      int
	gram   *triangle
	work   dense.Matrix // F x F
	cross  dense.Matrix // Z' y, F x columns
	means  dense.Matrix // of the classes
	kept   []float32    // the left-out samples
	of     targets      // their labels and weights
	y      dense.Matrix // their centered targets
	groups []span       // groups of kept samples, left out together; nil: none
	u      []float64    // memory of whiten
}

// sums hold the learned data of samples that are not kept.
type sums struct {
	all   *moments
	kept  []float32 // the left-out samples
	raw   *space    // of all samples before clipping; nil: not clipped
	spill bool      // the copy of the Gram matrix goes to a file, because memory is too small
}

// newPrimal consumes the moments. y are the targets of the kept samples, with the means of all
// samples.
func newPrimal(g sums, y targets, groups []span, o scaling) (s *primal, err error) {
	s = &primal{n: g.all.count(), kept: g.kept, of: y, y: y.centered(), groups: groups}
	s.space, s.work, s.cross = g.all.center(o, g.raw)
	s.means = g.all.means(s.space)
	s.gram, err = newTriangle(s.work, g.spill)
	return s, err
}

// solve returns the weights in the solver's space, F x columns.
func (s *primal) solve(ctx context.Context, alpha float64, leaveOneOut bool) (r solution, err error) {
	l := s.work
	if err = s.gram.copyTo(l); err != nil {
		return r, err
	}
	if err = factorRidge(ctx, l, alpha); err != nil {
		return r, err
	}
	r.coef = s.cross.Clone()
	dense.SolveLower(l, r.coef)
	dense.SolveLowerT(l, r.coef)
	if !leaveOneOut {
		return r, nil
	}
	r.residual = s.y.Clone()
	for from := 0; from < s.y.Rows; from += panel {
		part := span{from, min(from+panel, s.y.Rows)}
		dense.MultiplySamples(r.residual.Sub(from, 0, part.size(), s.y.Cols), -1, s.samples(part), false, r.coef)
	}
	s.of.scale(r.residual)
	if s.y.Rows < s.n {
		r.centers = dense.New(s.means.Rows, s.y.Cols)
		dense.Multiply(r.centers, 1, s.means, false, r.coef, false)
	}
	whiten := func(part span) (dense.Matrix, error) { return s.whiten(ctx, l, part) }
	if s.groups != nil {
		means := s.means.Clone()
		dense.SolveRightT(means, l)
		r.groups = whitened(s.groups, s.of, means, whiten)
		return r, nil
	}
	// The left-out part of each sample, 1 - h_i; the hat diagonal with free intercept is
	// h_i = 1/n + z_i' (G + alpha I)^-1 z_i = 1/n + |L^-1 z_i|^2, and with weights the square
	// of their roots replaces the 1.
	r.rest = make([]float64, s.y.Rows)
	for from := 0; from < s.y.Rows; from += panel {
		u, err := whiten(span{from, min(from+panel, s.y.Rows)})
		if err != nil {
			return r, err
		}
		for i := range u.Rows {
			root := s.of.root(s.of.labels[from+i])
			h := root*root/float64(s.n) + floats.Dot(u.Row(i), u.Row(i))
			r.rest[from+i] = rest(1-h, 1)
		}
	}
	return r, nil
}

// samples returns some of the kept samples.
func (s *primal) samples(part span) dense.Samples {
	f := len(s.mean)
	return dense.Samples{Rows: part.size(), Cols: f, X: s.kept[part.from*f : part.to*f], Stride: f, Center: s.mean, Scale: s.scale}
}

// whiten returns z L'^-1 of some samples z, times their roots, G + alpha I being L L'; valid
// until the next call.
func (s *primal) whiten(ctx context.Context, l dense.Matrix, part span) (dense.Matrix, error) {
	f := len(s.mean)
	if need := part.size() * f; cap(s.u) < need {
		s.u = make([]float64, need)
	}
	u := dense.Matrix{Rows: part.size(), Cols: f, Stride: f, Data: s.u[:part.size()*f]}
	for i := range u.Rows {
		z, root := u.Row(i), s.of.root(s.of.labels[part.from+i])
		for j, x := range s.kept[(part.from+i)*f:][:f] {
			z[j] = (float64(x) - s.mean[j]) * s.scale[j] * root
		}
	}
	dense.SolveRightT(u, l)
	return u, ctx.Err()
}

func (s *primal) leave(groups []span) { s.groups = groups }

// weights is the identity here.
func (s *primal) weights(coef dense.Matrix) (dense.Matrix, error) { return coef, nil }
