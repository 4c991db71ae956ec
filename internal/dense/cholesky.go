package dense

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
)

// ErrSingular reports a matrix that is not positive definite to working precision.
var ErrSingular = errors.New("matrix is singular to working precision")

// Cholesky replaces the lower triangle of a by l with l*l' = a. Values above the diagonal
// are not read, and are overwritten. The error is ErrSingular or the context's; then the
// content of a is undefined.
//
// A pivot counts as zero if elimination has canceled it to within the rounding of its
// original diagonal element: order * 2^-52 of the element. Otherwise the factor of a
// matrix without full rank would consist of noise.
func Cholesky(ctx context.Context, a Matrix) error {
	floor := make([]float64, a.Rows)
	for i := range floor {
		floor[i] = a.Row(i)[i] * float64(a.Rows) * 0x1p-52
	}
	return factor(ctx, a, floor)
}

func factor(ctx context.Context, a Matrix, floor []float64) error {
	if a.Rows <= leaf {
		return factorLeaf(a, floor)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	h := half(a.Rows)
	a11, a21, a22 := quarters(a, h)
	if err := factor(ctx, a11, floor[:h]); err != nil {
		return err
	}
	SolveRightT(a21, a11)
	AddOuter(a22, -1, a21)
	return factor(ctx, a22, floor[h:])
}

func factorLeaf(a Matrix, floor []float64) error {
	for i := range a.Rows {
		x := a.Row(i)
		for j := range i {
			x[j] = (x[j] - floats.Dot(x[:j], a.Row(j)[:j])) / a.Row(j)[j]
		}
		p := x[i] - floats.Dot(x[:i], x[:i])
		if !(p > floor[i]) || math.IsInf(p, 0) {
			return ErrSingular
		}
		x[i] = math.Sqrt(p)
	}
	return nil
}

// InvertLower replaces the lower triangle l by its inverse, in place and with the n^3/3
// operations of an inversion: the corner is solved against both triangles before they are
// inverted themselves.
func InvertLower(ctx context.Context, l Matrix) error {
	if l.Rows <= leaf {
		invertLeaf(l)
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l11, l21, l22 := quarters(l, half(l.Rows))
	SolveRight(l21, l11)
	SolveLower(l22, l21)
	for i := range l21.Rows {
		floats.Scale(-1, l21.Row(i))
	}
	if err := InvertLower(ctx, l11); err != nil {
		return err
	}
	return InvertLower(ctx, l22)
}

// invertLeaf works row by row: after the inversion of the rows above, row i of the
// inverse is -l[i,:i]/l[i,i] times these rows.
func invertLeaf(l Matrix) {
	var row [leaf]float64
	for i := range l.Rows {
		x := l.Row(i)
		copy(row[:], x[:i])
		d := 1 / x[i]
		clear(x[:i])
		for k, v := range row[:i] {
			floats.AddScaled(x[:k+1], -d*v, l.Row(k)[:k+1])
		}
		x[i] = d
	}
}

// ColumnSquares returns the sum of squares of each column of the lower triangle l: with l
// the inverse of a Cholesky factor, the diagonal of the inverse of the factored matrix.
func ColumnSquares(l Matrix) []float64 {
	sum := make([]float64, l.Cols)
	Parallel(l.Cols, 64, func(lo, hi int) {
		for i := lo; i < l.Rows; i++ {
			for j, v := range l.Row(i)[lo:min(hi, i+1)] {
				sum[lo+j] += v * v
			}
		}
	})
	return sum
}
