package dense

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// gflops reports a rate, counting two operations per multiply-add.
func gflops(b *testing.B, operations float64) {
	b.ReportMetric(operations*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchmarkPeak is the reference of the other benchmarks: multiply-adds only on
// registers, and gonum's product, on one core each.
func BenchmarkPeak(b *testing.B) {
	for _, t := range tiles() {
		if t.peak == nil {
			continue
		}
		b.Run(t.name, func(b *testing.B) {
			const rounds = 1 << 20
			for b.Loop() {
				t.peak(rounds)
			}
			gflops(b, float64(2*rounds*peakChains*t.lanes))
		})
	}
}

func BenchmarkGonum(b *testing.B) {
	const n = 1024
	rng := rand.New(rand.NewPCG(6, 6))
	x, c := randomMatrix(rng, n, n), New(n, n)
	for b.Loop() {
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, blas64.General(x), blas64.General(x), 0, blas64.General(c))
	}
	gflops(b, 2*n*n*n)
}

// BenchmarkTiles measures the product of square matrices by each tile.
func BenchmarkTiles(b *testing.B) {
	const n = 1024
	rng := rand.New(rand.NewPCG(6, 6))
	x, c := randomMatrix(rng, n, n), New(n, n)
	for _, t := range tiles() {
		b.Run(t.name, func(b *testing.B) {
			defer useTile(t)()
			for b.Loop() {
				Multiply(c, 1, x, false, x, true)
			}
			gflops(b, 2*n*n*n)
		})
	}
}

// BenchmarkSamples measures the two symmetric products of float32 features.
func BenchmarkSamples(b *testing.B) {
	for _, size := range [][2]int{{60000, 200}, {1500, 10000}} {
		n, f := size[0], size[1]
		s := randomSamples(rand.New(rand.NewPCG(7, 7)), n, f)
		name, c, add := "Gram", New(min(n, f), min(n, f)), AddGram
		if n < f {
			name, add = "Kernel", AddKernel
		}
		b.Run(fmt.Sprintf("%s/%dx%d", name, n, f), func(b *testing.B) {
			for b.Loop() {
				add(c, s)
			}
			gflops(b, float64(n)*float64(f)*float64(c.Rows+1))
		})
	}
}

// BenchmarkRidge measures one regularization with more samples than features: a Cholesky
// factor, and the whitening of samples, next to the Gram matrix.
func BenchmarkRidge(b *testing.B) {
	const n, f = 768, 5120
	rng := rand.New(rand.NewPCG(8, 8))
	s := randomSamples(rng, n, f)
	gram, l, u := New(f, f), New(f, f), randomMatrix(rng, n, f)
	b.Run("Gram", func(b *testing.B) {
		for b.Loop() {
			AddGram(gram, s)
		}
		gflops(b, n*f*(f+1))
	})
	b.Run("Cholesky", func(b *testing.B) {
		for b.Loop() {
			copy(l.Data, gram.Data)
			for i := range f {
				l.Row(i)[i] += 1e6
			}
			if err := Cholesky(b.Context(), l); err != nil {
				b.Fatal(err)
			}
		}
		gflops(b, float64(f)*f*f/3)
	})
	b.Run("Whiten", func(b *testing.B) {
		for b.Loop() {
			SolveRightT(u, l)
		}
		gflops(b, n*f*f)
	})
}
