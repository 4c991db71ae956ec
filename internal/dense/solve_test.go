package dense

import (
	"math"
	"testing"
)

// TestSolves requires the bits of the plain solve from every tile's solve, for every
// order up to the leaf, next to pages without access.
func TestSolves(t *testing.T) {
	eachTile(t, func(t *testing.T) {
		for _, atEnd := range []bool{false, true} {
			w := newWorkbench(t, atEnd)
			for n := 1; n <= leaf; n++ {
				l := w.matrix(0, n, n)
				for i := range n {
					for j := range l.Row(i)[i+1:] {
						l.Row(i)[i+1+j] = math.NaN()
					}
				}
				for i, solve := range []func(b Matrix){
					func(b Matrix) { SolveLower(l, b) }, func(b Matrix) { SolveLowerT(l, b) },
					func(b Matrix) { SolveRightT(b, l) }, func(b Matrix) { SolveRight(b, l) },
				} {
					b := w.matrix(1, n, 1+n*29%70)
					if i >= 2 {
						b = w.matrix(1, 1+n*29%70, n)
					}
					checkSolve(t, b, l, i >= 2, i&1 != 0, solve)
				}
			}
		}
	})
}

// checkSolve compares with substitution, one right-hand side at a time.
func checkSolve(t *testing.T, b, l Matrix, right, backwards bool, solve func(b Matrix)) {
	t.Helper()
	x := New(b.Rows, b.Cols)
	x.copyFrom(b)
	element := func(side, i int) *float64 {
		if right {
			return &x.Row(side)[i]
		}
		return &x.Row(i)[side]
	}
	n, count := l.Rows, b.Rows+b.Cols-l.Rows
	for side := range count {
		for i := range n {
			z := element(side, i)
			if backwards {
				z = element(side, n-1-i)
			}
			for k := range i {
				if backwards {
					*z = math.FMA(-l.Row(n - 1 - k)[n-1-i], *element(side, n-1-k), *z)
				} else {
					*z = math.FMA(-l.Row(i)[k], *element(side, k), *z)
				}
			}
			if backwards {
				*z /= l.Row(n - 1 - i)[n-1-i]
			} else {
				*z /= l.Row(i)[i]
			}
		}
	}
	solve(b)
	for i, v := range b.Data {
		inside := i%b.Stride < b.Cols
		if inside && math.Float64bits(v) != math.Float64bits(x.Row(i / b.Stride)[i%b.Stride]) {
			t.Fatalf("order %d, right %v, backwards %v: element (%d, %d) is %v, want %v",
				n, right, backwards, i/b.Stride, i%b.Stride, v, x.Row(i / b.Stride)[i%b.Stride])
		}
		if !inside && v == v {
			t.Fatalf("order %d, right %v, backwards %v: wrote %v beyond row %d", n, right, backwards, v, i/b.Stride)
		}
	}
}
