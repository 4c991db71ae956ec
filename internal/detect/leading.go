package detect

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

const (
	rounding = 1e-10 // of the largest eigenvalue: what is less is none
	narrow   = 4     // of at most so many times the directions that are wanted, all are computed
	rounds   = 30    // of the iteration, at most
)

// leading are the leading eigenvectors of a symmetric matrix, of which the lower triangle is
// set, as columns, with their eigenvalues; fewer where the rest is rounding.
func leading(ctx context.Context, kernel dense.Matrix, dims int) (vectors dense.Matrix, values []float64, err error) {
	if dims > 0 && kernel.Rows > narrow*dims {
		if vectors, values, err = iterate(ctx, kernel, dims); err != nil {
			return vectors, nil, err
		}
	}
	if values == nil {
		if vectors, values, err = eigen(kernel); err != nil {
			return vectors, nil, err
		}
	}
	for dims > 0 && !(values[dims-1] > rounding*values[0]) {
		dims--
	}
	first := dense.New(vectors.Rows, dims)
	for i := range first.Rows {
		copy(first.Row(i), vectors.Row(i))
	}
	return first, values[:dims], nil
}

// eigen are all eigenvectors of a symmetric matrix, of which the lower triangle is set, as
// columns, those of the largest eigenvalues first.
func eigen(a dense.Matrix) (vectors dense.Matrix, values []float64, err error) {
	n := a.Rows
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			sym.SetSym(i, j, a.Row(i)[j])
		}
	}
	var of mat.EigenSym
	if !of.Factorize(sym, true) {
		return vectors, nil, errors.New("detect: the eigenvalues of the training part did not converge")
	}
	all := of.Values(nil) // ascending
	var basis mat.Dense
	of.VectorsTo(&basis)
	vectors = dense.New(n, n)
	for c := range n {
		values = append(values, all[n-1-c])
		for i := range n {
			vectors.Row(i)[c] = basis.At(i, n-1-c)
		}
	}
	return vectors, values, nil
}

// iterate computes twice as many eigenvectors as are wanted, by subspace iteration with
// Rayleigh and Ritz's projection (Y. Saad: Numerical Methods for Large Eigenvalue Problems,
// 2011, section 5.2), until those that are wanted are eigenvectors to rounding. A whole
// decomposition takes several times as long. values are nil where it does not come there: the
// matrix has fewer eigenvalues above rounding, or they are too close to those that are left out.
func iterate(ctx context.Context, kernel dense.Matrix, dims int) (vectors dense.Matrix, values []float64, err error) {
	n, b := kernel.Rows, 2*dims
	full := kernel.Clone()
	for i := range n {
		for j := range i {
			full.Row(j)[i] = full.Row(i)[j]
		}
	}
	q, r := dense.New(n, b), rand.New(rand.NewPCG(3, 3))
	for i := range q.Data {
		q.Data[i] = r.NormFloat64()
	}
	for range rounds {
		// The columns are nearly eigenvectors, scaled to length 1: so powers do not make them alike.
		for range 2 {
			if err := orthonormal(ctx, q); errors.Is(err, dense.ErrSingular) {
				return vectors, nil, nil
			} else if err != nil {
				return vectors, nil, err
			}
		}
		z, h := dense.New(n, b), dense.New(b, b)
		dense.Multiply(z, 1, full, false, q, false)
		dense.Multiply(h, 1, q, true, z, false)
		turn, of, err := eigen(h)
		if err != nil {
			return vectors, nil, err
		}
		if !(of[b-1] > 1e-14*of[0]) {
			return vectors, nil, nil
		}
		v, kv := dense.New(n, b), dense.New(n, b)
		dense.Multiply(v, 1, q, false, turn, false)
		dense.Multiply(kv, 1, z, false, turn, false)
		worst := 0.
		for c := range dims {
			sum := 0.
			for i := range n {
				d := kv.Row(i)[c] - float64(of[c]*v.Row(i)[c])
				sum += float64(d * d)
			}
			worst = max(worst, sum)
		}
		if worst <= 1e-24*of[0]*of[0] {
			return v, of, nil
		}
		q = dense.New(n, b)
		dense.Multiply(q, 1, full, false, kv, false)
		for i := range n {
			for c := range b {
				q.Row(i)[c] /= of[c] * of[c]
			}
		}
	}
	return vectors, nil, nil
}

// orthonormal makes columns orthonormal, which are almost independent: twice makes them so to
// rounding (Cholesky QR).
func orthonormal(ctx context.Context, q dense.Matrix) error {
	for c := range q.Cols {
		sum := 0.
		for i := range q.Rows {
			sum += float64(q.Row(i)[c] * q.Row(i)[c])
		}
		if !(sum > 0) || math.IsInf(sum, 0) {
			return dense.ErrSingular
		}
		length := math.Sqrt(sum)
		for i := range q.Rows {
			q.Row(i)[c] /= length
		}
	}
	g := dense.New(q.Cols, q.Cols)
	dense.Multiply(g, 1, q, true, q, false)
	if err := dense.Cholesky(ctx, g); err != nil {
		return err
	}
	dense.SolveRightT(q, g)
	return nil
}
