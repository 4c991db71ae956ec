package fit

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// wide is a group with more samples than features, left out through matrices of the features'
// size. Its block of I - H would be larger, and is I - V V' with V = [u, 1/sqrt(n)]; with
// weights the samples' roots replace the 1.
type wide struct {
	u      dense.Matrix // its samples, whitened: L^-1 z each, for G + alpha I = L L'
	labels []int        // of the group's samples
	of     targets
	means  dense.Matrix // the classes', whitened
	n      int          // samples in all
}

// solve returns (I - V V')^-1 e = e + V (I - V' V)^-1 V' e.
func (w *wide) solve(ctx context.Context, residual dense.Matrix) error {
	f := w.u.Cols
	v := dense.New(w.u.Rows, f+1)
	for i := range v.Rows {
		copy(v.Row(i), w.u.Row(i))
		v.Row(i)[f] = w.of.root(w.labels[i]) / math.Sqrt(float64(w.n))
	}
	s, whole := identity(f + 1)
	dense.Multiply(s, -1, v, true, v, false)
	if err := definite(ctx, s, whole); err != nil {
		return err
	}
	x := dense.New(f+1, residual.Cols)
	dense.Multiply(x, 1, v, true, residual, false)
	dense.SolveLower(s, x)
	dense.SolveLowerT(s, x)
	dense.Multiply(residual, 1, v, false, x, false)
	return nil
}

// scores fills in -1/2 the squared distances of the group's samples to the classes' means, by
// the scatter and the means of all other groups. This scatter, whitened and with alpha, is
// I - M' N M - D' Q D: without the classes' means (see discriminant), and without the group
// (see withoutGroup).
func (w *wide) scores(ctx context.Context, labels, counts []int, scores dense.Matrix) error {
	f, k := w.u.Cols, len(counts)
	inGroup, moved := make([]int, k), dense.New(k, f)
	d := w.u.Clone()
	for i, l := range labels {
		floats.Sub(d.Row(i), w.means.Row(l))
		floats.Add(moved.Row(l), d.Row(i))
		inGroup[l]++
	}
	p, whole := identity(f)
	dense.Multiply(p, -1, d, true, d, false)
	means, parts := w.means.Clone(), dense.New(2*k, f)
	for j := range k {
		floats.AddScaled(parts.Row(j), math.Sqrt(float64(counts[j])), w.means.Row(j))
		if rest := float64(counts[j] - inGroup[j]); rest > 0 {
			floats.AddScaled(parts.Row(k+j), 1/math.Sqrt(rest), moved.Row(j))
			floats.AddScaled(means.Row(j), -1/rest, moved.Row(j))
		}
	}
	dense.Multiply(p, -1, parts, true, parts, false)
	if err := definite(ctx, p, whole); err != nil {
		return err
	}
	d = w.u.Clone()
	dense.SolveRightT(d, p)
	dense.SolveRightT(means, p)
	for i := range d.Rows {
		for j := range k {
			distance := floats.Distance(d.Row(i), means.Row(j), 2)
			scores.Row(i)[j] = -distance * distance / 2
		}
		unknown(scores.Row(i), counts, inGroup)
	}
	return nil
}

// identity returns the matrix, and its diagonal.
func identity(n int) (dense.Matrix, []float64) {
	m, diagonal := dense.New(n, n), make([]float64, n)
	for i := range n {
		m.Row(i)[i], diagonal[i] = 1, 1
	}
	return m, diagonal
}
