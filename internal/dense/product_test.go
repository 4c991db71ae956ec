package dense

import (
	"math"
	"math/rand/v2"
	"testing"
)

// checkProduct runs a product and compares it, bit by bit, with the documented order:
// fused multiply-adds along the depth, cut into Blocks. a reads (row, depth), b (column,
// depth). In a symmetric product only the lower triangle counts.
func checkProduct(t *testing.T, c Matrix, alpha float64, depth int, a, b func(i, k int) float64, symmetric bool, run func()) {
	t.Helper()
	before := append([]float64(nil), c.Data...)
	run()
	rows, cols := copyElements(c.Rows, depth, a), copyElements(c.Cols, depth, b)
	for i := range c.Rows {
		for j := range c.Stride {
			at := i*c.Stride + j
			if at >= len(c.Data) {
				break
			}
			want, got := before[at], c.Data[at]
			if j < c.Cols {
				if symmetric && j > i {
					continue
				}
				for k0 := 0; k0 < depth; k0 += Block {
					z, end := 0.0, min(depth, k0+Block)
					col := cols.Row(j)[k0:end]
					for k, x := range rows.Row(i)[k0:end] {
						z = math.FMA(x, col[k], z)
					}
					want = math.FMA(alpha, z, want)
				}
			}
			if math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%d x %d, depth %d: element (%d, %d) is %v, want %v", c.Rows, c.Cols, depth, i, j, got, want)
			}
		}
	}
}

// TestProducts requires the same bits of every tile, in shapes around every edge, from
// every kind of memory, and next to pages without access. Under -short (an emulator)
// every seventh shape: each remainder of 8 is among them.
func TestProducts(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 7
	}
	eachTile(t, func(t *testing.T) {
		for _, atEnd := range []bool{false, true} {
			w := newWorkbench(t, atEnd)
			for n := 1; n <= 70; n += step {
				checkProducts(t, w, n, 1+n*29%70, 1+n*53%70)
				checkProducts(t, w, n, n, 71-n)
			}
			checkProducts(t, w, 30, 70, Block)
			checkProducts(t, w, 70, 9, Block+1)
			checkProducts(t, w, 5, 5, 2*Block+50)
		}
	})
}

func checkProducts(t *testing.T, w *workbench, rows, cols, depth int) {
	t.Helper()
	for i := range 4 {
		transA, transB := i&1 != 0, i&2 != 0
		a, b := w.matrix(0, rows, depth), w.matrix(1, depth, cols)
		readA, readB := a.at, flip(b.at)
		if transA {
			a = w.matrix(0, depth, rows)
			readA = flip(a.at)
		}
		if transB {
			b = w.matrix(1, cols, depth)
			readB = b.at
		}
		c := w.matrix(2, rows, cols)
		checkProduct(t, c, -1.75, depth, readA, readB, false, func() { Multiply(c, -1.75, a, transA, b, transB) })
	}
	b, c := w.matrix(1, depth, cols), w.matrix(2, rows, cols)
	s := w.samples(rows, depth)
	checkProduct(t, c, -1, depth, s.at, flip(b.at), false, func() { MultiplySamples(c, -1, s, false, b) })
	c = w.matrix(2, rows, cols)
	s = w.samples(depth, rows)
	checkProduct(t, c, 1, depth, flip(s.at), flip(b.at), false, func() { MultiplySamples(c, 1, s, true, b) })

	a, c := w.matrix(0, rows, depth), w.matrix(2, rows, rows)
	checkProduct(t, c, -1, depth, a.at, a.at, true, func() { AddOuter(c, -1, a) })
	c = w.matrix(2, rows, rows)
	checkProduct(t, c, 1, depth, flip(s.at), flip(s.at), true, func() { AddGram(c, s) })
	s, c = w.samples(rows, depth), w.matrix(2, rows, rows)
	checkProduct(t, c, 1, depth, s.at, s.at, true, func() { AddKernel(c, s) })
}

// TestLargeProducts crosses the blocks of rows and columns of several threads.
func TestLargeProducts(t *testing.T) {
	eachTile(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 9))
		for _, n := range [][3]int{{3, 1000, 40}, {rowSpan + 5, 3, 40}, {rowBlock + 1, rowBlock - 1, 30}, {500, 300, Block + 7}} {
			a, b := randomMatrix(rng, n[0], n[2]), randomMatrix(rng, n[1], n[2])
			c, d := New(n[0], n[1]), New(n[1], n[0])
			checkProduct(t, c, 1, n[2], a.at, b.at, false, func() { Multiply(c, 1, a, false, b, true) })
			checkProduct(t, d, 1, n[2], b.at, a.at, false, func() { Multiply(d, 1, b, false, a, true) })
		}
		s := randomSamples(rng, 2*rowBlock+30, 50)
		c := New(s.Rows, s.Rows)
		checkProduct(t, c, 1, s.Cols, s.at, s.at, true, func() { AddKernel(c, s) })
	})
}

// Non-finite values affect the same elements as in the plain sums and, despite the zeros
// of padding, no others.
func TestNonFinite(t *testing.T) {
	eachTile(t, func(t *testing.T) {
		const n = 27
		rng := rand.New(rand.NewPCG(11, 11))
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			for at := range n {
				a, b, c := randomMatrix(rng, n, 5), randomMatrix(rng, 5, n), New(n, n)
				a.Row(at)[3] = bad
				b.Row(3)[1] = 0
				Multiply(c, 1, a, false, b, false)
				for i := range n {
					for j, v := range c.Row(i) {
						finite := v-v == 0
						if finite == (i == at) {
							t.Fatalf("%v in row %d: element (%d, %d) is %v", bad, at, i, j, v)
						}
						if i == at && j == 1 && v == v {
							t.Fatalf("%v times 0 gave %v", bad, v)
						}
					}
				}
			}
		}
	})
}
