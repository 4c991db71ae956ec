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
	rounding = 1e-10 // relative to the largest eigenvalue: smaller values count as zero
	narrow   = 4     // up to narrow times the requested directions, all are computed
	rounds   = 30    // of the iteration, at most
)

// leading returns the leading eigenvectors, as columns, and eigenvalues of a symmetric matrix;
// fewer if the rest is rounding. Only the lower triangle is read.
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

// eigen returns all eigenvectors, as columns, and eigenvalues of a symmetric matrix, largest
// eigenvalue first. Only the lower triangle is read.
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

// iterate computes twice as many eigenvectors as requested, by subspace iteration with
// Rayleigh and Ritz's projection (Y. Saad: Numerical Methods for Large Eigenvalue Problems,
// 2011, section 5.2), until the requested vectors are eigenvectors to rounding. A whole
// decomposition takes several times as long. values is nil if iterate does not converge: the
// matrix has fewer eigenvalues above rounding, or the next eigenvalues are too close.
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
		// The columns are nearly eigenvectors of length 1: powers do not make columns alike.
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

// orthonormal makes almost independent columns orthonormal; two calls make them orthonormal to
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
