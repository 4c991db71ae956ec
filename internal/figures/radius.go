package figures

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Radius is Fig. 2.
type Radius struct {
	Grid Grid
	Rows []RadiusRow // in the order of Grid: recurrent scales, gamma, eps, draws
}

// RadiusRow is the effective spectral radius of one draw.
type RadiusRow struct {
	Cell
	Rho     float64 // spectral radius of Wh
	Excess  float64 // rho(J) - 1 by Corollary 1
	Numeric float64 // rho(J) from the eigenvalues of J
	Error   float64 // the largest distance of an eigenvalue of J from Proposition 1's
}

// NewRadius computes Fig. 2.
func NewRadius(ctx context.Context, g Grid, o Options) (*Radius, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	drawn, err := g.drawAll(ctx)
	if err != nil {
		return nil, err
	}
	cells := g.cells()
	f := &Radius{g, make([]RadiusRow, len(cells))}
	err = o.forEach(ctx, len(cells), "spectral radii", func(_ context.Context, i int) error {
		c := cells[i]
		row, err := radiusOf(c, drawn[Cell{Recurrent: c.Recurrent, Draw: c.Draw}])
		f.Rows[i] = row
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// excess returns rho(J) - 1 by Corollary 1.
func excess(eps, gamma, rho float64) float64 {
	rest := eps * (eps*(gamma*gamma+rho*rho) - 2*gamma)
	return math.Expm1(math.Log1p(rest) / 2)
}

func radiusOf(c Cell, w *weights) (RadiusRow, error) {
	row := RadiusRow{Cell: c, Rho: w.rho, Excess: excess(c.Eps, c.Gamma, w.rho)}
	j := mat.NewDense(w.n, w.n, nil)
	for i := range w.n {
		for k := range w.n {
			j.Set(i, k, c.Eps*w.wh[i*w.n+k])
		}
		j.Set(i, i, 1-c.Eps*c.Gamma)
	}
	values, err := eigenvalues(j)
	if err != nil {
		return row, fmt.Errorf("%w, at %v", err, c)
	}
	slices.SortFunc(values, func(a, b complex128) int { return cmp.Compare(imag(a), imag(b)) })
	for k, v := range values {
		row.Numeric = max(row.Numeric, cmplx.Abs(v))
		row.Error = max(row.Error, cmplx.Abs(v-complex(1-c.Eps*c.Gamma, c.Eps*w.beta[k])))
	}
	return row, nil
}

// tolerance bounds the solver's error: a few dozen roundings of a matrix of norm 1 +
// eps*rho (at most 3 on the paper's grid, with an observed error of 1e-14).
func (r RadiusRow) tolerance() float64 { return 1e-12 * (1 + r.Eps*r.Rho) }

func (r RadiusRow) holds() bool {
	return r.Error <= r.tolerance() && math.Abs(r.Numeric-1-r.Excess) <= r.tolerance()
}

// Check reports the first cell whose eigenvalues differ from Proposition 1 or whose
// spectral radius differs from Corollary 1.
func (f *Radius) Check() error {
	for _, r := range f.Rows {
		if !r.holds() { // false for NaN
			return fmt.Errorf("figures: Fig. 2: Proposition 1 and Corollary 1 do not hold at %v: eigenvalues are off by %g, spectral radius %.17g, want %.17g",
				r.Cell, r.Error, r.Numeric, 1+r.Excess)
		}
	}
	return nil
}

// CSV returns a line per draw of a cell.
func (f *Radius) CSV() []byte {
	t := newTable("recurrent_scale", "gamma", "eps", "draw", "rho_wh", "radius_minus_1", "radius_from_eigenvalues", "largest_eigenvalue_error", "holds")
	for _, r := range f.Rows {
		t.addRow(r.Recurrent, r.Gamma, r.Eps, r.Draw, r.Rho, r.Excess, r.Numeric, r.Error, r.holds())
	}
	return t.bytes()
}
