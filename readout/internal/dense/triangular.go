package dense

import "gonum.org/v1/gonum/floats"

// leaf is the order at which recursion ends: a triangle of 64 x 64 float64
// fits the first-level cache, and half an order is where splitting stops
// giving Multiply enough to do.
const leaf = 64

// half splits an order above leaf; multiples of leaf keep the tiles whole.
func half(n int) int { return max(leaf, n/2/leaf*leaf) }

// quarters cuts the lower triangle l after row and column h.
func quarters(l Matrix, h int) (l11, l21, l22 Matrix) {
	r := l.Rows - h
	return l.Sub(0, 0, h, h), l.Sub(h, 0, r, h), l.Sub(h, h, r, r)
}

// SolveLower replaces b by inverse(l) * b, l lower triangular.
func SolveLower(l, b Matrix) {
	if l.Rows <= leaf {
		Parallel(b.Cols, 64, func(lo, hi int) {
			for i := range l.Rows {
				bi := b.Row(i)[lo:hi]
				for k, v := range l.Row(i)[:i] {
					floats.AddScaled(bi, -v, b.Row(k)[lo:hi])
				}
				floats.Scale(1/l.Row(i)[i], bi)
			}
		})
		return
	}
	h := half(l.Rows)
	l11, l21, l22 := quarters(l, h)
	b1, b2 := b.Sub(0, 0, h, b.Cols), b.Sub(h, 0, b.Rows-h, b.Cols)
	SolveLower(l11, b1)
	Multiply(b2, -1, l21, false, b1, false)
	SolveLower(l22, b2)
}

// SolveLowerT replaces b by inverse(l') * b.
func SolveLowerT(l, b Matrix) {
	if l.Rows <= leaf {
		Parallel(b.Cols, 64, func(lo, hi int) {
			for i := l.Rows - 1; i >= 0; i-- {
				bi := b.Row(i)[lo:hi]
				floats.Scale(1/l.Row(i)[i], bi)
				for k, v := range l.Row(i)[:i] {
					floats.AddScaled(b.Row(k)[lo:hi], -v, bi)
				}
			}
		})
		return
	}
	h := half(l.Rows)
	l11, l21, l22 := quarters(l, h)
	b1, b2 := b.Sub(0, 0, h, b.Cols), b.Sub(h, 0, b.Rows-h, b.Cols)
	SolveLowerT(l22, b2)
	Multiply(b1, -1, l21, true, b2, false)
	SolveLowerT(l11, b1)
}

// SolveRight replaces b by b * inverse(l).
func SolveRight(b, l Matrix) {
	if l.Rows <= leaf {
		Parallel(b.Rows, 16, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				x := b.Row(i)
				for j := l.Rows - 1; j >= 0; j-- {
					x[j] /= l.Row(j)[j]
					floats.AddScaled(x[:j], -x[j], l.Row(j)[:j])
				}
			}
		})
		return
	}
	h := half(l.Rows)
	l11, l21, l22 := quarters(l, h)
	b1, b2 := b.Sub(0, 0, b.Rows, h), b.Sub(0, h, b.Rows, b.Cols-h)
	SolveRight(b2, l22)
	Multiply(b1, -1, b2, false, l21, false)
	SolveRight(b1, l11)
}

// SolveRightT replaces b by b * inverse(l').
func SolveRightT(b, l Matrix) {
	if l.Rows <= leaf {
		Parallel(b.Rows, 16, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				x := b.Row(i)
				for j := range l.Rows {
					x[j] = (x[j] - floats.Dot(x[:j], l.Row(j)[:j])) / l.Row(j)[j]
				}
			}
		})
		return
	}
	h := half(l.Rows)
	l11, l21, l22 := quarters(l, h)
	b1, b2 := b.Sub(0, 0, b.Rows, h), b.Sub(0, h, b.Rows, b.Cols-h)
	SolveRightT(b1, l11)
	Multiply(b2, -1, b1, false, l21, true)
	SolveRightT(b2, l22)
}
