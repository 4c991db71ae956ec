package dense

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// sizes straddle the leaf, a single split and an uneven second split.
var sizes = []int{1, 2, leaf - 1, leaf, leaf + 1, 2*leaf - 1, 2 * leaf, 2*leaf + 1, 200, 300}

func randomMatrix(rng *rand.Rand, rows, cols int) Matrix {
	m := New(rows, cols)
	for i := range m.Data {
		m.Data[i] = rng.NormFloat64()
	}
	return m
}

// definite returns a well-conditioned symmetric matrix, garbage above the diagonal.
func definite(rng *rand.Rand, n int) Matrix {
	a := randomMatrix(rng, n, n+3)
	c := New(n, n)
	AddOuter(c, 1, a)
	for i := range n {
		c.Row(i)[i] += float64(n)
		for j := i + 1; j < n; j++ {
			c.Row(i)[j] = math.NaN()
		}
	}
	return c
}

// lower copies the lower triangle, zero above.
func lower(m Matrix) Matrix {
	c := New(m.Rows, m.Cols)
	for i := range m.Rows {
		copy(c.Row(i)[:i+1], m.Row(i)[:i+1])
	}
	return c
}

// plain is the triple loop, the reference of the fast paths.
func plain(a Matrix, transA bool, b Matrix, transB bool) Matrix {
	at := func(m Matrix, t bool, i, j int) float64 {
		if t {
			i, j = j, i
		}
		return m.Row(i)[j]
	}
	n, k, m := a.Rows, a.Cols, b.Cols
	if transA {
		n, k = k, n
	}
	if transB {
		m = b.Rows
	}
	c := New(n, m)
	for i := range n {
		for j := range m {
			for l := range k {
				c.Row(i)[j] += at(a, transA, i, l) * at(b, transB, l, j)
			}
		}
	}
	return c
}

func difference(a, b Matrix) float64 {
	worst := 0.0
	for i := range a.Rows {
		for j, v := range a.Row(i) {
			if d := math.Abs(v - b.Row(i)[j]); !(d <= worst) {
				worst = d
			}
		}
	}
	return worst
}

func TestTriangularSolves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range sizes {
		l := definite(rng, n)
		if err := Cholesky(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		full := lower(l)
		wide, tall := randomMatrix(rng, n, 70), randomMatrix(rng, 70, n)
		check := func(name string, want, got Matrix) {
			t.Helper()
			// Residuals of a few hundred terms of size up to 10: 1e-11 is a thousand
			// roundings of the largest term.
			if d := difference(want, got); !(d < 1e-11) {
				t.Errorf("n=%d %s: residual %g", n, name, d)
			}
		}
		x := wide.Clone()
		SolveLower(l, x)
		check("SolveLower", wide, plain(full, false, x, false))
		x = wide.Clone()
		SolveLowerT(l, x)
		check("SolveLowerT", wide, plain(full, true, x, false))
		x = tall.Clone()
		SolveRight(x, l)
		check("SolveRight", tall, plain(x, false, full, false))
		x = tall.Clone()
		SolveRightT(x, l)
		check("SolveRightT", tall, plain(x, false, full, true))
	}
}

func TestCholeskyAndInverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, n := range sizes {
		a := definite(rng, n)
		l := a.Clone()
		if err := Cholesky(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		if d := difference(lower(a), lower(plain(lower(l), false, lower(l), true))); !(d < 1e-10) {
			t.Errorf("n=%d: l*l' is off by %g", n, d)
		}
		inv := l.Clone()
		if err := InvertLower(context.Background(), inv); err != nil {
			t.Fatal(err)
		}
		eye := New(n, n)
		for i := range n {
			eye.Row(i)[i] = 1
		}
		if d := difference(eye, plain(lower(inv), false, lower(l), false)); !(d < 1e-12) {
			t.Errorf("n=%d: inverse times l is off by %g", n, d)
		}
		product := plain(lower(inv), true, lower(inv), false)
		for i, v := range ColumnSquares(inv) {
			if math.Abs(v-product.Row(i)[i]) > 1e-14 {
				t.Errorf("n=%d: column %d has %g, want %g", n, i, v, product.Row(i)[i])
			}
		}
	}
}

// One row is a combination of two well-conditioned rows: for other rows, rounding can
// lift a pivot over any threshold.
func TestCholeskyRefusesDeficientRank(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		for _, n := range []int{2, leaf, leaf + 1, 130} {
			a, c := randomMatrix(rng, n, 3*n), New(n, n)
			for j := range a.Cols {
				a.Row(n - 1)[j] = (a.Row(0)[j] + a.Row(n/2 - 1)[j]) / 2
			}
			AddOuter(c, 1, a)
			if err := Cholesky(context.Background(), c); !errors.Is(err, ErrSingular) {
				t.Errorf("n=%d, rank %d: got %v, want ErrSingular", n, n-1, err)
			}
		}
	}
	c := New(1, 1)
	c.Data[0] = math.NaN()
	if err := Cholesky(context.Background(), c); !errors.Is(err, ErrSingular) {
		t.Errorf("NaN: got %v, want ErrSingular", err)
	}
}

func TestStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := definite(rand.New(rand.NewPCG(4, 4)), 130)
	if err := Cholesky(ctx, a.Clone()); !errors.Is(err, context.Canceled) {
		t.Errorf("Cholesky: %v", err)
	}
	if err := InvertLower(ctx, a.Clone()); !errors.Is(err, context.Canceled) {
		t.Errorf("InvertLower: %v", err)
	}
}

// The same bits for any number of threads and any tile.
func TestThreadsAndTilesDoNotMatter(t *testing.T) {
	run := func(threads int) Matrix {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		l := definite(rand.New(rand.NewPCG(5, 5)), 333)
		if err := Cholesky(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		if err := InvertLower(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		m := lower(l)
		copy(m.Row(0), ColumnSquares(l))
		return m
	}
	want := run(1)
	eachTile(t, func(t *testing.T) {
		for _, threads := range []int{1, 2, 3, 8} {
			if d := difference(want, run(threads)); d != 0 {
				t.Errorf("%d threads differ from 1 of the fastest tile by %g", threads, d)
			}
		}
	})
}

func BenchmarkDense(b *testing.B) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, n := range []int{512, 2048} {
		a := definite(rng, n)
		l := a.Clone()
		flops := func(b *testing.B, per float64) { gflops(b, per*float64(n)*float64(n)*float64(n)) }
		b.Run(fmt.Sprintf("Multiply/%d", n), func(b *testing.B) {
			x, y, c := randomMatrix(rng, n, n), randomMatrix(rng, n, n), New(n, n)
			for b.Loop() {
				Multiply(c, 1, x, false, y, true)
			}
			flops(b, 2)
		})
		b.Run(fmt.Sprintf("AddOuter/%d", n), func(b *testing.B) {
			x, c := randomMatrix(rng, n, n), New(n, n)
			for b.Loop() {
				AddOuter(c, 1, x)
			}
			flops(b, 1)
		})
		b.Run(fmt.Sprintf("Cholesky/%d", n), func(b *testing.B) {
			for b.Loop() {
				copy(l.Data, a.Data)
				if err := Cholesky(context.Background(), l); err != nil {
					b.Fatal(err)
				}
			}
			flops(b, 1./3)
		})
		b.Run(fmt.Sprintf("InvertLower/%d", n), func(b *testing.B) {
			c := l.Clone()
			for b.Loop() {
				copy(c.Data, l.Data)
				if err := InvertLower(context.Background(), c); err != nil {
					b.Fatal(err)
				}
			}
			flops(b, 1./3)
		})
	}
}
