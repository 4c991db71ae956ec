package bench

import (
	"context"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// moments are all that a ridge regression needs of its rows, of which there may
// be any number: the sums of products of features, target and 1 with each
// other, in float64. They are taken about the first row, so that a value whose
// mean is large compared with its deviation keeps its digits.
type moments struct {
	features int
	shift    []float64    // the first row; 0 for the column of ones
	scale    []float64    // ones
	gram     dense.Matrix // lower triangle; columns are features, target, 1
	waiting  []float32    // rows not in gram yet
	rows     int
}

// momentRows is how many rows enter a product at once: whole depths of it.
const momentRows = 4 * dense.Block

func newMoments(features int) *moments {
	cols := features + 2
	return &moments{
		features: features, scale: slices.Repeat([]float64{1}, cols), gram: dense.New(cols, cols),
		waiting: make([]float32, 0, momentRows*cols),
	}
}

// add takes a row of features, and its target.
func (m *moments) add(features []float32, target float32) {
	m.waiting = append(append(m.waiting, features[:m.features]...), target, 1)
	m.rows++
	if m.shift == nil {
		m.shift = make([]float64, m.features+2)
		for j, x := range m.waiting[:m.features+1] {
			m.shift[j] = float64(x)
		}
	}
	if len(m.waiting) == cap(m.waiting) {
		m.flush()
	}
}

func (m *moments) flush() {
	if cols := m.features + 2; len(m.waiting) > 0 {
		dense.AddGram(m.gram, dense.Samples{Rows: len(m.waiting) / cols, Cols: cols, X: m.waiting, Stride: cols, Center: m.shift, Scale: m.scale})
	}
	m.waiting = m.waiting[:0]
}

// regression is target = intercept + weights (features - centre).
type regression struct {
	centre, weights []float64
	intercept       float64
}

// solve minimises the sum of squared errors + alpha |weights|^2; the intercept
// is not penalised. There must be a row. The error is dense.ErrSingular where
// the features are linearly dependent and alpha is lost in their rounding.
func (m *moments) solve(ctx context.Context, alpha float64) (regression, error) {
	m.flush()
	f, n := m.features, float64(m.rows)
	target, sums := m.gram.Row(f), m.gram.Row(f+1)
	l, w := dense.New(f, f), dense.New(f, 1)
	for i := range f {
		of, row := m.gram.Row(i), l.Row(i)
		for j := range i + 1 {
			row[j] = of[j] - float64(sums[i]*sums[j]/n)
		}
		row[i] += alpha
		w.Row(i)[0] = target[i] - float64(sums[f]*sums[i]/n)
	}
	if err := dense.Cholesky(ctx, l); err != nil {
		return regression{}, err
	}
	dense.SolveLower(l, w)
	dense.SolveLowerT(l, w)
	r := regression{centre: m.shift[:f], weights: w.Data, intercept: m.shift[f] + sums[f]/n}
	for j, v := range r.weights {
		r.intercept -= float64(v * (sums[j] / n))
	}
	return r, nil
}

// predict is the regression's value for a row of features.
func (r regression) predict(features []float32) float64 {
	o := r.intercept
	for j, w := range r.weights {
		o += float64(w * (float64(features[j]) - r.centre[j]))
	}
	return o
}
