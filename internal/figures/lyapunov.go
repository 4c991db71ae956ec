package figures

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Lyapunov is Fig. 3.
type Lyapunov struct {
	Grid Grid
	Rows []LyapunovRow // in the order of Grid: recurrent scales, gamma, eps, draws
}

// LyapunovRow holds the local exponents of one draw, in nats per step.
type LyapunovRow struct {
	Cell
	Rho          float64 // spectral radius of Wh
	Most, Least  float64 // the largest and the smallest exponent
	Lower, Upper float64 // Proposition 2's bounds; Lower may be -Inf
	Jacobians    int     // number of decomposed Jacobians
}

// NewLyapunov computes Fig. 3.
func NewLyapunov(ctx context.Context, g Grid, o Options) (*Lyapunov, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	drawn, err := g.drawAll(ctx)
	if err != nil {
		return nil, err
	}
	inputs := make([][]float64, g.Draws)
	for d := range inputs {
		inputs[d] = g.drive(d)
	}
	cells := g.cells()
	f := &Lyapunov{g, make([]LyapunovRow, len(cells))}
	err = o.forEach(ctx, len(cells), "local Lyapunov exponents", func(ctx context.Context, i int) error {
		c := cells[i]
		w := drawn[Cell{Recurrent: c.Recurrent, Draw: c.Draw}]
		row := LyapunovRow{Cell: c, Rho: w.rho}
		row.Lower, row.Upper = bounds(c.Eps, c.Gamma, w.rho)
		var err error
		if row.Most, row.Least, row.Jacobians, err = exponents(ctx, c, w, inputs[c.Draw], g.stride(c.Eps*w.rho)); err != nil {
			return fmt.Errorf("%w, at %v", err, c)
		}
		f.Rows[i] = row
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// bounds returns the bounds of Proposition 2.
func bounds(eps, gamma, rho float64) (lower, upper float64) {
	r := eps * (rho + gamma)
	if r >= 1 {
		return math.Inf(-1), math.Log1p(r)
	}
	return math.Log1p(-r), math.Log1p(r)
}

// wild is the eps*rho from which the state changes much from step to step: a few
// Jacobians then do not represent the rest.
const wild = .1

// stride returns the number of steps that one Jacobian represents.
func (g Grid) stride(epsRho float64) int {
	if epsRho >= wild {
		return 1
	}
	return g.Every
}

// exponents drives the reservoir from the state 0 and averages the logarithms of the
// largest and the smallest modulus of the Jacobian in the middle of each stride, of count
// Jacobians.
func exponents(ctx context.Context, c Cell, w *weights, input []float64, stride int) (most, least float64, count int, err error) {
	n := w.n
	h, v, d := make([]float64, n), make([]float64, n), make([]float64, n)
	b := mat.NewDense(n, n, nil)
	for t, u := range input {
		for i := range n {
			z := w.bias[i] + w.input[i]*u - c.Gamma*h[i]
			for k, m := range w.wh[i*n : (i+1)*n] {
				z += m * h[k]
			}
			v[i] = math.Tanh(z)
			d[i] = math.Sqrt(1 - v[i]*v[i])
		}
		if t%stride == stride/2 {
			if err := ctx.Err(); err != nil {
				return 0, 0, 0, err
			}
			setScaled(b, w, d, c.Gamma)
			hi, lo, err := logModuli(b, c.Eps)
			if err != nil {
				return 0, 0, 0, err
			}
			most, least, count = most+hi, least+lo, count+1
		}
		for i := range n {
			h[i] += c.Eps * v[i]
		}
	}
	return most / float64(count), least / float64(count), count, nil
}

// setScaled sets b to d (Wh - gamma I) d, d the square root of the diagonal D.
func setScaled(b *mat.Dense, w *weights, d []float64, gamma float64) {
	for i := range w.n {
		row := b.RawRowView(i)
		for k, m := range w.wh[i*w.n : (i+1)*w.n] {
			row[k] = d[i] * d[k] * m
		}
		row[i] = -gamma * d[i] * d[i]
	}
}

// logModuli returns the largest and the smallest ln |1 + eps mu| over the eigenvalues mu
// of b.
func logModuli(b *mat.Dense, eps float64) (most, least float64, err error) {
	values, err := eigenvalues(b)
	if err != nil {
		return 0, 0, err
	}
	most, least = math.Inf(-1), math.Inf(1)
	for _, mu := range values {
		l := logModulus(eps, mu)
		most, least = max(most, l), min(least, l)
	}
	return most, least, nil
}

func (r LyapunovRow) holds() bool { return r.Lower <= r.Least && r.Most <= r.Upper }

// Check reports the first cell with a local exponent outside Proposition 2's
// bounds. There is no tolerance: a bound is far from the exponents of a cell,
// in units of rounding errors.
func (f *Lyapunov) Check() error {
	for _, r := range f.Rows {
		if !r.holds() { // false for NaN
			return fmt.Errorf("figures: Fig. 3: Proposition 2 does not hold at %v: local exponents from %g to %g, bounds %g to %g",
				r.Cell, r.Least, r.Most, r.Lower, r.Upper)
		}
	}
	return nil
}

// CSV returns a line per draw of a cell.
func (f *Lyapunov) CSV() []byte {
	t := newTable("recurrent_scale", "gamma", "eps", "draw", "rho_wh", "mlle", "smallest_lle", "lower_bound", "upper_bound", "jacobians", "holds")
	for _, r := range f.Rows {
		t.addRow(r.Recurrent, r.Gamma, r.Eps, r.Draw, r.Rho, r.Most, r.Least, r.Lower, r.Upper, r.Jacobians, r.holds())
	}
	return t.bytes()
}
