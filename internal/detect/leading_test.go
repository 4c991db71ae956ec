package detect

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// spectrum returns a symmetric matrix with the given eigenvalues, in a random basis.
func spectrum(t *testing.T, of []float64) dense.Matrix {
	t.Helper()
	n, r := len(of), rand.New(rand.NewPCG(1, 7))
	a := dense.New(n, n)
	for i := range n {
		for j := range i + 1 {
			a.Row(i)[j] = r.NormFloat64()
		}
	}
	basis, _, err := eigen(a)
	if err != nil {
		t.Fatal(err)
	}
	scaled, k := basis.Clone(), dense.New(n, n)
	for i := range n {
		for c := range n {
			scaled.Row(i)[c] *= of[c]
		}
	}
	dense.Multiply(k, 1, scaled, false, basis, true)
	return k
}

// TestLeading checks that the iteration finds the result of a whole decomposition, or reports
// failure.
func TestLeading(t *testing.T) {
	const n, dims = 120, 8
	for name, c := range map[string]struct {
		value   func(i int) float64
		iterate bool // converges
		dims    int
	}{
		"falling":           {func(i int) float64 { return 1e4 * math.Pow(.8, float64(i)) }, true, dims},
		"two that are one":  {func(i int) float64 { return 1e4 * math.Pow(.8, float64(i/2)) }, true, dims},
		"flat":              {func(i int) float64 { return 1 + 1e-3/float64(1+i) }, false, dims},
		"few":               {func(i int) float64 { return max(0, float64(5-i)) }, false, 5},
		"few above nothing": {func(i int) float64 { return 1e-13 + max(0, float64(5-i)) }, false, 5},
		"none":              {func(int) float64 { return 0 }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			of := make([]float64, n)
			for i := range of {
				of[i] = c.value(i)
			}
			kernel := spectrum(t, of)
			if _, values, err := iterate(t.Context(), kernel, dims); err != nil || (values != nil) != c.iterate {
				t.Errorf("the iteration has %v (%v), comes to its end: want %v", values, err, c.iterate)
			}
			vectors, values, err := leading(t.Context(), kernel, dims)
			if err != nil || len(values) != c.dims || vectors.Cols != c.dims {
				t.Fatalf("%d eigenvalues, %d vectors (%v), want %d", len(values), vectors.Cols, err, c.dims)
			}
			for k, v := range values {
				if math.Abs(v-of[k]) > 1e-10*of[0] {
					t.Errorf("eigenvalue %d is %v, want %v", k, v, of[k])
				}
				for i := range n { // each column is an eigenvector of length 1
					got := 0.
					for j := range n {
						got += kernel.Row(max(i, j))[min(i, j)] * vectors.Row(j)[k]
					}
					if math.Abs(got-v*vectors.Row(i)[k]) > 1e-10*of[0] {
						t.Fatalf("vector %d is none of the matrix: %v, want %v", k, got, v*vectors.Row(i)[k])
					}
				}
				for l := range k + 1 {
					dot, want := 0., 0.
					for i := range n {
						dot += vectors.Row(i)[k] * vectors.Row(i)[l]
					}
					if k == l {
						want = 1
					}
					if math.Abs(dot-want) > 1e-12 {
						t.Errorf("vectors %d and %d have the product %v", k, l, dot)
					}
				}
			}
		})
	}
}
