package dense

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/parts"
)

// use makes a tile the active one; the result undoes it.
func use(t *tile) (undo func()) {
	old := active
	active = t
	return func() { active = old }
}

// eachTile runs a test with every tile this machine has, and fails for one
// that EUSN_REQUIRE names and the machine lacks.
func eachTile(t *testing.T, test func(t *testing.T)) {
	found := map[string]bool{}
	for _, s := range tiles() {
		found[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			defer use(s)()
			test(t)
		})
	}
	for _, name := range []string{"avx512", "avx2"} {
		if !found[name] && parts.Required(name) {
			t.Errorf("this machine or build has no %s, and EUSN_REQUIRE names it", name)
		}
	}
}

// workbench holds matrices that begin, or end, where memory does. What is between
// their rows must neither be read (it is not a number) nor written.
type workbench struct {
	rng      *rand.Rand
	atEnd    bool
	place    [3][]float64
	features []float32
}

func newWorkbench(t *testing.T, atEnd bool) *workbench {
	const room = 500 * 80
	w := &workbench{rng: rand.New(rand.NewPCG(8, 8)), atEnd: atEnd, features: guarded[float32](t, room)}
	for i := range w.place {
		w.place[i] = guarded[float64](t, room)
	}
	return w
}

// at takes n values of a place, at its begin or its end.
func at[T any](w *workbench, v []T, n int) []T {
	if w.atEnd {
		return v[len(v)-n:]
	}
	return v[:n]
}

func (w *workbench) matrix(place, rows, cols int) Matrix {
	m := Matrix{Rows: rows, Cols: cols, Stride: cols + rows%3}
	m.Data = at(w, w.place[place], (rows-1)*m.Stride+cols)
	for i := range m.Data {
		m.Data[i] = math.NaN()
	}
	for i := range rows {
		for j := range m.Row(i) {
			m.Row(i)[j] = w.rng.NormFloat64()
		}
	}
	return m
}

func (w *workbench) samples(rows, cols int) Samples {
	s := samples(w.rng, rows, cols)
	x := at(w, w.features, len(s.X))
	copy(x, s.X)
	for i := range x {
		if i%s.Stride >= cols {
			x[i] = float32(math.NaN())
		}
	}
	s.X = x
	return s
}

// samples draws float32 features with a mean, seen centred and scaled, in rows
// further apart than they are long.
func samples(rng *rand.Rand, rows, cols int) Samples {
	s := Samples{Rows: rows, Cols: cols, Stride: cols + 3, Center: make([]float64, cols), Scale: make([]float64, cols)}
	s.X = make([]float32, (rows-1)*s.Stride+cols)
	for i := range s.X {
		s.X[i] = float32(rng.NormFloat64())
	}
	for j := range cols {
		s.Center[j], s.Scale[j] = rng.NormFloat64(), 1+rng.Float64()
	}
	return s
}

func (s Samples) at(i, j int) float64 {
	return (float64(s.X[i*s.Stride+j]) - s.Center[j]) * s.Scale[j]
}

func (m Matrix) at(i, j int) float64 { return m.Row(i)[j] }

func flip(at func(i, j int) float64) func(i, j int) float64 {
	return func(i, j int) float64 { return at(j, i) }
}

// copied copies an operand's elements, which check reads many times.
func copied(rows, cols int, at func(i, j int) float64) Matrix {
	m := New(rows, cols)
	for i := range rows {
		for j := range m.Row(i) {
			m.Row(i)[j] = at(i, j)
		}
	}
	return m
}

// check runs a product and compares it, bit by bit, with the documented order:
// fused multiply-adds along the depth, cut into Blocks. a reads (row, depth),
// b (column, depth). Of a symmetric product only the lower triangle counts.
func check(t *testing.T, c Matrix, alpha float64, depth int, a, b func(i, k int) float64, symmetric bool, run func()) {
	t.Helper()
	before := append([]float64(nil), c.Data...)
	run()
	rows, cols := copied(c.Rows, depth, a), copied(c.Cols, depth, b)
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

// TestProducts holds every tile to the same bits, in shapes around every edge,
// from every kind of memory, and beside pages that cannot be touched. Under
// -short (an emulator) every seventh: each remainder of 8 is among them.
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
		check(t, c, -1.75, depth, readA, readB, false, func() { Multiply(c, -1.75, a, transA, b, transB) })
	}
	b, c := w.matrix(1, depth, cols), w.matrix(2, rows, cols)
	s := w.samples(rows, depth)
	check(t, c, -1, depth, s.at, flip(b.at), false, func() { MultiplySamples(c, -1, s, false, b) })
	c = w.matrix(2, rows, cols)
	s = w.samples(depth, rows)
	check(t, c, 1, depth, flip(s.at), flip(b.at), false, func() { MultiplySamples(c, 1, s, true, b) })

	a, c := w.matrix(0, rows, depth), w.matrix(2, rows, rows)
	check(t, c, -1, depth, a.at, a.at, true, func() { AddOuter(c, -1, a) })
	c = w.matrix(2, rows, rows)
	check(t, c, 1, depth, flip(s.at), flip(s.at), true, func() { AddGram(c, s) })
	s, c = w.samples(rows, depth), w.matrix(2, rows, rows)
	check(t, c, 1, depth, s.at, s.at, true, func() { AddKernel(c, s) })
}

// TestLargeProducts crosses the blocks of rows and columns that threads share.
func TestLargeProducts(t *testing.T) {
	eachTile(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 9))
		for _, n := range [][3]int{{3, 1000, 40}, {rowSpan + 5, 3, 40}, {rowBlock + 1, rowBlock - 1, 30}, {500, 300, Block + 7}} {
			a, b := random(rng, n[0], n[2]), random(rng, n[1], n[2])
			c, d := New(n[0], n[1]), New(n[1], n[0])
			check(t, c, 1, n[2], a.at, b.at, false, func() { Multiply(c, 1, a, false, b, true) })
			check(t, d, 1, n[2], b.at, a.at, false, func() { Multiply(d, 1, b, false, a, true) })
		}
		s := samples(rng, 2*rowBlock+30, 50)
		c := New(s.Rows, s.Rows)
		check(t, c, 1, s.Cols, s.at, s.at, true, func() { AddKernel(c, s) })
	})
}

// A product with a lower triangle leaves its other half out.
func TestSamplesByTriangle(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for _, n := range []int{1, 50, rowBlock, 2*rowBlock + 1} {
		s, l := samples(rng, 20, n), random(rng, n, n)
		for i := range n {
			for j := i + 1; j < n; j++ {
				l.Row(i)[j] = math.NaN()
			}
		}
		want, got, full := New(20, n), New(20, n), New(20, n)
		for i := range full.Rows {
			for j := range n {
				full.Row(i)[j] = s.at(i, j)
			}
		}
		Multiply(want, 1, full, false, lower(l), true)
		MultiplySamplesLowerT(got, s, l)
		if d := difference(want, got); d != 0 {
			t.Errorf("n=%d: off by %g", n, d)
		}
	}
}

// What is not finite goes where the plain sums would take it and, past the
// zeros that fill up panels, nowhere else.
func TestNonFinite(t *testing.T) {
	eachTile(t, func(t *testing.T) {
		const n = 27
		rng := rand.New(rand.NewPCG(11, 11))
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			for at := range n {
				a, b, c := random(rng, n, 5), random(rng, 5, n), New(n, n)
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

// TestSolves holds every tile's solve to the same bits as the plain one, for
// every order up to the leaf, beside pages that cannot be touched.
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
