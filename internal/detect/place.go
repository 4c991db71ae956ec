package detect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// Values chosen on half of the data sets of docs/results.md.
const (
	Places = 8  // leading directions in Usual
	edge   = 10 // one in edge sequences at each end does not widen the range of x
)

// penalties are the candidates of a ridge regression, per sequence.
var penalties = []float64{1e-3, 1e-2, 1e-1, 1, 10, 100, 1e4}

// choosePenalty chooses the penalty with the least squared error of left-out folds. left are
// the predictions without their fold; nil if no penalty is better than a constant.
func (r *regression) choosePenalty(ctx context.Context) (best float64, left []float64, loss float64, err error) {
	loss = r.predictConstant()
	for _, penalty := range penalties {
		predicted, l, err := r.leaveOut(ctx, penalty)
		if err != nil {
			return 0, nil, 0, err
		}
		if l < loss {
			best, left, loss = penalty, predicted, l
		}
	}
	return best, left, loss, nil
}

// detectorByPlace is detector, with the left-out residuals divided by usual residuals.
func (l *learner) detectorByPlace(ctx context.Context, s *subspace, products, between dense.Matrix, of []int, left []float64) (*novelty.Detector, error) {
	usual, err := byPlace(ctx, products, between, of, left)
	if err != nil {
		return nil, err
	}
	d := l.detector(s, left)
	d.Usual = usual
	return d, nil
}

// byPlace regresses the logarithms of left-out squared residuals on the products with the
// leading directions and on their squares. The penalty has the least squared error of left-out
// folds. byPlace divides the residuals by the usual residuals, as predicted without their
// fold, unless the prediction is no better than a constant. between are the products with the
// spliced directions, which come before the principal directions. nil: byPlace left the
// residuals unchanged.
func byPlace(ctx context.Context, products, between dense.Matrix, fold []int, squared []float64) (*novelty.Usual, error) {
	u := &novelty.Usual{Between: between.Cols, Linear: make([]float32, between.Cols), Square: make([]float32, between.Cols)}
	median := slices.Sorted(slices.Values(squared))[len(squared)/2]
	if median == 0 && u.Between == 0 {
		return nil, nil
	} else if median == 0 {
		return u, nil
	}
	r := newRegression(products, squared, median, fold)
	n, m := len(squared), products.Cols
	best, left, loss, err := r.choosePenalty(ctx)
	if err != nil {
		return nil, err
	}
	deviation := math.Sqrt(loss / float64(n))
	w, constant, low, most := make([]float64, 2*m), 0., 0., 0.
	switch {
	case left != nil:
		if w, constant, err = r.solve(ctx, -1, best); err != nil {
			return nil, err
		}
		fitted := make([]float64, n)
		for i := range fitted {
			fitted[i] = r.predict(i, w, constant)
		}
		slices.Sort(fitted)
		low = fitted[n/edge]
		most = fitted[n-1-n/edge] - low
	case u.Between == 0:
		return nil, nil
	default:
		left = make([]float64, n)
	}
	along := newAlong(between, deviation)
	if u.Between > 0 {
		reach := spliceReach * spliceStrength * deviation
		low -= reach
		most += reach
	}
	for k, strength := range along.strength {
		constant -= float64(strength * float64(along.mean[k]*along.mean[k]))
		u.Linear[k], u.Square[k] = float32(2*strength*along.mean[k]), float32(-strength)
	}
	most = min(most, novelty.MostUsual)
	for i, p := range left {
		squared[i] *= canon.ExpNegative(max(0, min(p-along.evidence(i)-low, most)))
	}
	u.Most = float32(most)
	offset := constant - low
	for j, v := range w {
		v *= r.scale[j]
		offset -= float64(v * r.mean[j])
		if j < m {
			u.Linear = append(u.Linear, float32(v))
		} else {
			u.Square = append(u.Square, float32(v))
		}
	}
	u.Offset = float32(offset)
	return u, nil
}

// placed converts products with a fold's directions into products with the directions of all
// sequences: about the mean of all, and with the directions within the fold's span nearest to
// the directions of all (the polar factor of the products of both). A fold's directions may
// have other signs; directions of almost equal eigenvalues are turned; and the mean of a fold
// with much of one class is further from this class.
type placed struct {
	between []float64 // added to products with the fold's spliced directions
	shift   []float64
	turn    dense.Matrix
}

// placed returns the conversion for a fold and the first directions.
func (s *subspace) placed(fold *subspace, first int) (*placed, error) {
	f, k := len(s.mean), fold.axes.Cols-fold.between
	p := &placed{between: make([]float64, fold.between), shift: make([]float64, k), turn: dense.New(k, first)}
	for j := range f {
		d := (fold.mean[j] - s.mean[j]) * fold.scale[j]
		for c, v := range fold.axes.Row(j)[:fold.between] {
			p.between[c] += float64(d * v)
		}
		for c, v := range fold.axes.Row(j)[fold.between:] {
			p.shift[c] += float64(d * v)
		}
	}
	if k == 0 || first == 0 { // equal sequences have no directions
		return p, nil
	}
	both := dense.New(k, first)
	dense.Multiply(both, 1, fold.axes.Sub(0, fold.between, f, k), true, s.axes.Sub(0, s.between, f, first), false)
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(k, first, both.Data), mat.SVDThin) {
		return nil, errors.New("detect: the singular values of directions did not converge")
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	mat.NewDense(k, first, p.turn.Data).Mul(&u, v.T())
	return p, nil
}

// of writes the converted products of one sequence.
func (p *placed) of(dst, products []float64) {
	clear(dst)
	for c, t := range products {
		t += p.shift[c]
		for i, v := range p.turn.Row(c) {
			dst[i] += float64(t * v)
		}
	}
}

// regression holds logarithms of residuals and products with their squares, centered and
// scaled.
type regression struct {
	x           dense.Matrix // sequences x 2 products
	mean, scale []float64    // of the columns of x
	y           []float64
	fold        []int
	sums        []moments // of each fold; the last of all
}

// moments are sums over some sequences.
type moments struct {
	n, y  float64
	x, xy []float64
	xx    dense.Matrix
}

func newRegression(products dense.Matrix, squared []float64, median float64, fold []int) *regression {
	m, p := products.Cols, 2*products.Cols
	r := &regression{x: dense.New(len(squared), p), mean: make([]float64, p), scale: make([]float64, p), fold: fold, sums: make([]moments, slices.Max(fold)+2)}
	for i, q := range squared {
		row := r.x.Row(i)
		for j, t := range products.Row(i) {
			row[j], row[m+j] = t, float64(t*t)
		}
		r.y = append(r.y, math.Log(max(q/median, 1e-12))) // limits a residual of rounding
	}
	for j := range p {
		sum, squares := 0., 0.
		for i := range r.y {
			sum += r.x.Row(i)[j]
		}
		mean := sum / float64(len(r.y))
		for i := range r.y {
			d := r.x.Row(i)[j] - mean
			squares += float64(d * d)
		}
		r.mean[j] = mean
		if dev := math.Sqrt(squares / float64(len(r.y))); dev > 1e-12*math.Abs(mean) && dev > 1e-150 {
			r.scale[j] = 1 / dev
		}
		for i := range r.y {
			r.x.Row(i)[j] = (r.x.Row(i)[j] - mean) * r.scale[j]
		}
	}
	for k := range r.sums {
		r.sums[k] = moments{x: make([]float64, p), xy: make([]float64, p), xx: dense.New(p, p)}
	}
	for i, y := range r.y {
		for _, s := range []*moments{&r.sums[fold[i]], &r.sums[len(r.sums)-1]} {
			s.n++
			s.y += y
			for j, v := range r.x.Row(i) {
				s.x[j] += v
				s.xy[j] += float64(v * y)
				for k, w := range r.x.Row(i)[:j+1] {
					s.xx.Row(j)[k] += float64(v * w)
				}
			}
		}
	}
	return r
}

// solve solves the regression without a fold; -1: with all folds.
func (r *regression) solve(ctx context.Context, without int, penalty float64) (w []float64, constant float64, err error) {
	all := r.sums[len(r.sums)-1]
	p := len(all.x)
	none := moments{x: make([]float64, p), xy: make([]float64, p), xx: dense.New(p, p)}
	out := none
	if without >= 0 {
		out = r.sums[without]
	}
	n, y := all.n-out.n, all.y-out.y
	a, b := dense.New(p, p), dense.New(p, 1)
	mean := make([]float64, p)
	for j := range p {
		mean[j] = (all.x[j] - out.x[j]) / n
		b.Row(j)[0] = all.xy[j] - out.xy[j] - float64(mean[j]*y)
		for k := range j + 1 {
			a.Row(j)[k] = all.xx.Row(j)[k] - out.xx.Row(j)[k] - float64(n*float64(mean[j]*mean[k]))
		}
		a.Row(j)[j] += float64(penalty * n)
	}
	if err := dense.Cholesky(ctx, a); err != nil {
		return nil, 0, fmt.Errorf("detect: usual residuals: %w", err)
	}
	dense.SolveLower(a, b)
	dense.SolveLowerT(a, b)
	constant = y / n
	for j := range p {
		w = append(w, b.Row(j)[0])
		constant -= float64(w[j] * mean[j])
	}
	return w, constant, nil
}

func (r *regression) predict(i int, w []float64, constant float64) float64 {
	for j, v := range r.x.Row(i) {
		constant += float64(v * w[j])
	}
	return constant
}

// leaveOut predicts each fold from the other folds, and returns the squared error of all.
func (r *regression) leaveOut(ctx context.Context, penalty float64) (predicted []float64, loss float64, err error) {
	predicted = make([]float64, len(r.y))
	for k := range r.sums[:len(r.sums)-1] {
		w, constant, err := r.solve(ctx, k, penalty)
		if err != nil {
			return nil, 0, err
		}
		for i, of := range r.fold {
			if of == k {
				predicted[i] = r.predict(i, w, constant)
				d := predicted[i] - r.y[i]
				loss += float64(d * d)
			}
		}
	}
	return predicted, loss, nil
}

// predictConstant returns the loss of predicting the mean of the other folds.
func (r *regression) predictConstant() (loss float64) {
	all := r.sums[len(r.sums)-1]
	for i, y := range r.y {
		out := r.sums[r.fold[i]]
		d := y - (all.y-out.y)/(all.n-out.n)
		loss += float64(d * d)
	}
	return loss
}
