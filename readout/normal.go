package readout

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// normal solves the normal equations through the F x F matrix G = Z' Z of
// centred features: the cheaper way where samples outnumber features.
type normal struct {
	t     table
	y     dense.Matrix // centred targets, n x columns
	g     dense.Matrix // lower triangle
	cross dense.Matrix // Z' y, F x columns
}

func newNormal(ctx context.Context, t table, y targets, progress func(float64)) (*normal, error) {
	f := len(t.mean)
	s := &normal{t: t, y: y.centred(), g: dense.New(f, f), cross: dense.New(f, len(y.mean))}
	z := t.samples()
	for i0 := 0; i0 < t.n; i0 += panel {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := z.Sub(i0, 0, min(panel, t.n-i0), f)
		dense.AddGram(s.g, part)
		dense.MultiplySamples(s.cross, 1, part, true, s.y.Sub(i0, 0, part.Rows, s.y.Cols))
		progress(setupShare * float64(i0+part.Rows) / float64(t.n))
	}
	return s, nil
}

// solve returns the weights in the table's space, F x columns.
func (s *normal) solve(ctx context.Context, alpha float64, leaveOneOut bool) (r solution, err error) {
	l := s.g.Clone()
	if err = factorRidge(ctx, l, alpha); err != nil {
		return r, err
	}
	r.coef = s.cross.Clone()
	dense.SolveLower(l, r.coef)
	dense.SolveLowerT(l, r.coef)
	if leaveOneOut {
		err = s.leverage(ctx, l, &r)
	}
	return r, err
}

// leverage fills in residuals and what each sample leaves, 1 - h_i, the hat
// diagonal with free intercept being
// h_i = 1/n + z_i' (G + alpha I)^-1 z_i = 1/n + |L^-1 z_i|^2.
// One inverse of L turns the solves for all samples into matrix products.
func (s *normal) leverage(ctx context.Context, l dense.Matrix, r *solution) error {
	r.residual, r.rest = s.y.Clone(), make([]float64, s.t.n)
	z := s.t.samples()
	if err := dense.InvertLower(ctx, l); err != nil {
		return err
	}
	for i0 := 0; i0 < z.Rows; i0 += panel {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := z.Sub(i0, 0, min(panel, z.Rows-i0), z.Cols)
		dense.MultiplySamples(r.residual.Sub(i0, 0, part.Rows, r.residual.Cols), -1, part, false, r.coef)
		u := dense.New(part.Rows, part.Cols)
		dense.MultiplySamplesLowerT(u, part, l)
		for i := range u.Rows {
			h := 1/float64(s.t.n) + floats.Dot(u.Row(i), u.Row(i))
			r.rest[i0+i] = rest(1-h, 1)
		}
	}
	return nil
}

// weights is the identity here.
func (s *normal) weights(coef dense.Matrix) dense.Matrix { return coef }

// rest is what a sample leaves to the others. Where that is rounding of
// whole, the sample determines its own prediction and there is no
// leave-one-out error at this alpha: not a number.
func rest(left, whole float64) float64 {
	if left < 1e-10*whole {
		return math.NaN()
	}
	return left
}
