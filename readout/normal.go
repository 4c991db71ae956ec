package readout

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/readout/internal/dense"
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
	for i0 := 0; i0 < t.n; i0 += panel {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		z := dense.New(f, min(panel, t.n-i0))
		t.blockT(z, i0)
		dense.AddOuter(s.g, 1, z)
		dense.Multiply(s.cross, 1, z, false, s.y.Sub(i0, 0, z.Cols, s.y.Cols), false)
		progress(setupShare * float64(i0+z.Cols) / float64(t.n))
	}
	return s, nil
}

// solve returns the weights in the table's space, F x columns.
func (s *normal) solve(ctx context.Context, alpha float64, leaveOneOut bool) (coef, loo dense.Matrix, err error) {
	l := s.g.Clone()
	if err = factorRidge(ctx, l, alpha); err != nil {
		return coef, loo, err
	}
	coef = s.cross.Clone()
	dense.SolveLower(l, coef)
	dense.SolveLowerT(l, coef)
	if leaveOneOut {
		loo, err = s.leaveOneOut(ctx, l, coef)
	}
	return coef, loo, err
}

// leaveOneOut divides each residual by 1 - h_i, the hat diagonal with free
// intercept being h_i = 1/n + z_i' (G + alpha I)^-1 z_i = 1/n + |L^-1 z_i|^2.
func (s *normal) leaveOneOut(ctx context.Context, l, coef dense.Matrix) (dense.Matrix, error) {
	loo := s.y.Clone()
	for i0 := 0; i0 < s.t.n; i0 += panel {
		if err := ctx.Err(); err != nil {
			return loo, err
		}
		z := dense.New(min(panel, s.t.n-i0), len(s.t.mean))
		s.t.block(z, i0, 0)
		residual := loo.Sub(i0, 0, z.Rows, loo.Cols)
		dense.Multiply(residual, -1, z, false, coef, false)
		dense.SolveRightT(z, l)
		for i := range z.Rows {
			h := 1/float64(s.t.n) + floats.Dot(z.Row(i), z.Row(i))
			leave(residual.Row(i), 1-h, 1)
		}
	}
	return loo, nil
}

// weights is the identity here.
func (s *normal) weights(coef dense.Matrix) dense.Matrix { return coef }

// leave divides a sample's residuals by what it leaves to the others. Where
// that is rounding of whole, the sample determines its own prediction and
// there is no leave-one-out error at this alpha: not a number.
func leave(residual []float64, rest, whole float64) {
	if rest < 1e-10*whole {
		rest = math.NaN()
	}
	floats.Scale(1/rest, residual)
}
