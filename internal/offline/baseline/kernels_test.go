package baseline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// The kernels of this machine compute the bits of the plain kernels, for any shape, and
// write nothing outside the shape.
func TestKernels(t *testing.T) {
	if active.name == plain.name {
		parts.Absent(t, "avx2", "this machine or build has the plain kernels only")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int, scale float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(scale * rng.NormFloat64())
		}
		return v
	}
	both := func(name string, arrays [][]float32, run func(k kernels, a [][]float32)) {
		t.Helper()
		var want, got [][]float32
		for _, a := range arrays {
			want, got = append(want, slices.Clone(a)), append(got, slices.Clone(a))
		}
		run(plain, want)
		run(active, got)
		for i, a := range want {
			for j, v := range a {
				if w := got[i][j]; math.Float32bits(v) != math.Float32bits(w) && (v == v || w == w) {
					t.Fatalf("%s, %s: array %d, element %d is %v, want %v", active.name, name, i, j, w, v)
				}
			}
		}
	}
	for range 30 {
		rows, units := 1+rng.IntN(9), lanes*(1+rng.IntN(5))
		stride := units + lanes*rng.IntN(3)
		name := fmt.Sprint(rows, " rows of ", units)
		n := rows*stride + lanes
		keep, gain := rng.Float32(), rng.Float32()
		// Arguments from far beyond saturation to almost zero, NaN and infinity.
		a := random(n, math.Pow(10, 3-6*rng.Float64()))
		a[rng.IntN(n)], a[rng.IntN(n)] = float32(math.NaN()), float32(math.Inf(-1))
		both("eulerForward, "+name, [][]float32{a, random(n, 1), random(n, 1)}, func(k kernels, v [][]float32) {
			k.eulerForward(table, v[0], stride, v[1], v[2], stride, keep, gain, units, rows)
		})
		both("eulerBackward, "+name, [][]float32{random(n, 1), random(n, 1), random(n, 1)}, func(k kernels, v [][]float32) {
			k.eulerBackward(v[0], stride, v[1], v[2], stride, keep, gain, units, rows)
		})
		gates := func() (v [][]float32) {
			for range 6 {
				v = append(v, random(n, 2))
			}
			return v
		}
		both("gruForward, "+name, append(gates(), random(n, 1), random(n, 1)), func(k kernels, v [][]float32) {
			k.gruForward(table, v[0], v[1], v[2], v[3], v[4], v[5], stride, v[6], v[7], stride, units, rows)
		})
		both("gruBackward, "+name, append(gates(), random(n, 1), random(n, 1), random(n, 1)), func(k kernels, v [][]float32) {
			k.gruBackward(v[0], v[1], v[2], v[3], v[4], v[5], stride, v[6], stride, v[7], v[8], stride, units, rows)
		})
		moments := random(units, 0.1)
		for i, v := range moments {
			moments[i] = v * v
		}
		both("adamStep, "+name, [][]float32{random(units, 1), random(units, 1), random(units, 1), moments}, func(k kernels, v [][]float32) {
			k.adamStep(v[0], v[1], v[2], v[3], gain)
		})
	}
	for range 60 {
		vectors, quads, depth := 1+rng.IntN(3), 1+rng.IntN(3), 1+rng.IntN(40)
		columns, rows := vectors*lanes, 4*quads
		stride, aRow, aCol := columns+lanes*rng.IntN(2), depth+rng.IntN(3), 1
		if rng.IntN(2) == 0 {
			aRow, aCol = 1, rows+rng.IntN(3)
		}
		arrays := [][]float32{random(rows*stride+lanes, 1), random(rows*aRow+depth*aCol, 1), random(depth*stride, 1)}
		both(fmt.Sprintf("product %d x %d x %d", rows, depth, columns), arrays, func(k kernels, v [][]float32) {
			k.product[vectors-1](v[0], stride, v[1], aRow, aCol, v[2], stride, depth, quads)
		})
	}
}
