package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// TestReadout holds the features and scores to their plain form.
func TestReadout(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		rng := rand.New(rand.NewPCG(3, 3))
		words := func(n int) []uint32 {
			v := guarded[uint32](t, n, guardAtEnd)
			for i := range v {
				v[i] = math.Float32bits(float32(rng.NormFloat64()))
			}
			return v
		}
		number := math.Float32frombits
		for n := 1; n <= 2*s.Vector+1; n++ {
			const count = 37
			high, low, squareHigh, squareLow := words(n), words(n), words(n), words(n)
			counts := guarded[uint32](t, n, guardAtEnd)
			for i := range counts {
				counts[i] = rng.Uint32() >> (1 + rng.IntN(31))
			}
			mean, share, deviation := floats(t, n), floats(t, n), floats(t, n)
			s.Features.Mean(&mean[0], &high[0], &low[0], n, count)
			s.Features.Share(&share[0], &counts[0], n, count)
			s.Features.Deviation(&deviation[0], &high[0], &low[0], &squareHigh[0], &squareLow[0], n, count)
			for i := range n {
				m := (number(high[i]) + number(low[i])) / count
				same(t, "mean", "value", i, 0, mean[i], m)
				same(t, "share", "value", i, 0, share[i], float32(counts[i])/count)
				v := canon.FMA(-m, m, (number(squareHigh[i])+number(squareLow[i]))/count)
				same(t, "deviation", "value", i, 0, deviation[i], float32(math.Sqrt(float64(max(v, 0)))))
			}
			raw, middle, limit, dst := floats(t, n), floats(t, n), floats(t, n), floats(t, n)
			random(rng, raw)
			random(rng, middle)
			random(rng, limit)
			for i := range limit {
				limit[i] = max(math.SmallestNonzeroFloat32, float32(math.Abs(float64(limit[i]))))
				switch rng.IntN(6) {
				case 0:
					raw[i] = middle[i] // no difference
				case 1:
					middle[i], limit[i] = 0, max(math.SmallestNonzeroFloat32, float32(math.Abs(float64(raw[i])))) // at the limit
				case 2:
					limit[i] = math.MaxFloat32
				case 3:
					limit[i] = math.SmallestNonzeroFloat32
				}
			}
			s.Features.Limited(&dst[0], &raw[0], &middle[0], &limit[0], n)
			for i, d := range dst {
				want := raw[i] - middle[i]
				if want > limit[i] {
					want = limit[i]
				} else if want < -limit[i] {
					want = -limit[i]
				}
				same(t, "limited", "value", i, 0, d, want)
			}
			if s.Features.Limited(&raw[0], &raw[0], &middle[0], &limit[0], n); !slices.Equal(raw, dst) {
				t.Fatalf("limited in place: %v, want %v", raw, dst)
			}
			stride := n + 3
			features := floats(t, (Streams-1)*stride+n)
			dst = floats(t, Streams*s.Vector)
			weights, intercept, center := floats(t, n*s.Vector), floats(t, s.Vector), floats(t, n)
			for _, v := range [][]float32{features, weights, intercept, center} {
				random(rng, v)
			}
			for _, streams := range []int{1, Streams} {
				scores := map[int]func(dst, w, i, c, f *float32, stride, n int){1: s.Scores, Streams: s.ScoresOfMany}[streams]
				random(rng, dst)
				scores(&dst[0], &weights[0], &intercept[0], &center[0], &features[0], 4*stride, n)
				for k := range streams {
					for c := range s.Vector {
						want := intercept[c]
						for f := range n {
							want = canon.FMA(weights[f*s.Vector+c], features[k*stride+f]-center[f], want)
						}
						same(t, fmt.Sprintf("%d streams, %d features", streams, n), "score", c, k, dst[k*s.Vector+c], want)
					}
				}
			}
		}
	})
}

// TestApart holds columns with centers and limits of their own to their plain form.
func TestApart(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		if s.Features.Apart == nil {
			t.Log("none: readouts are computed one by one")
			return
		}
		rng := rand.New(rand.NewPCG(5, 3))
		for vectors, k := range map[int]*ApartKernels{2: s.Features.Apart, 3: s.Features.LimitedApart} {
			for n := 1; n <= 5; n++ {
				for streams, scores := range map[int]func(dst, columns, intercept, features *float32, stride, n int){1: k.One, Streams: k.Many} {
					stride := n + rng.IntN(3)
					features, columns := floats(t, (streams-1)*stride+n), floats(t, n*vectors*s.Vector)
					intercept, dst := floats(t, s.Vector), floats(t, streams*s.Vector)
					for _, v := range [][]float32{features, columns, intercept, dst} {
						random(rng, v)
					}
					for i := range columns {
						if vectors == 3 && i/s.Vector%3 == 2 {
							columns[i] = float32(math.Abs(float64(columns[i])))
							if rng.IntN(3) == 0 {
								columns[i] = float32(math.Inf(1))
							}
						}
					}
					scores(&dst[0], &columns[0], &intercept[0], &features[0], 4*stride, n)
					for i := range streams {
						for c := range s.Vector {
							want := intercept[c]
							for f := range n {
								at := columns[f*vectors*s.Vector+c:]
								d := features[i*stride+f] - at[s.Vector]
								if vectors == 3 {
									d = min(max(d, -at[2*s.Vector]), at[2*s.Vector])
								}
								want = canon.FMA(at[0], d, want)
							}
							same(t, fmt.Sprintf("%d vectors, %d streams, %d features", vectors, streams, n), "score", c, i, dst[i*s.Vector+c], want)
						}
					}
				}
			}
		}
	})
}

// TestNovelty compares the kernels of a detector with their plain form. Calls
// continue at the end of earlier calls.
func TestNovelty(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		rng := rand.New(rand.NewPCG(3, 7))
		k := &s.Features.Novelty
		for _, n := range []int{1, 2, 3, 5} { // vectors of features
			n *= s.Vector
			stride := n + 16*rng.IntN(2)
			for _, streams := range []int{1, Streams} {
				scale := k.Scale
				if streams > 1 {
					scale = k.ScaleMany
				}
				what := fmt.Sprintf("%d streams, %d features", streams, n)
				features, center, by := floats(t, (streams-1)*stride+n), floats(t, n), floats(t, n)
				for _, v := range [][]float32{features, center, by} {
					random(rng, v)
				}
				features[rng.IntN(n)], by[rng.IntN(n)] = 1e25, 0 // squares beyond float32
				sums := guarded[float64](t, 4*streams, guardAtEnd)
				for i := range sums {
					sums[i] = rng.Float64()
				}
				want, z := slices.Clone(sums), slices.Clone(features)
				for i := range streams {
					for j := range n {
						v := float32(float32(features[i*stride+j]-center[j]) * by[j])
						z[i*stride+j] = v
						want[4*i+j%4] += float64(float64(v) * float64(v))
					}
				}
				scale(&sums[0], &features[0], &center[0], &by[0], 4*stride, n)
				for i := range want {
					if math.Float64bits(sums[i]) != math.Float64bits(want[i]) {
						t.Fatalf("%s: sum %d of stream %d is %v, want %v", what, i%4, i/4, sums[i], want[i])
					}
				}
				for i, v := range z { // also the values between the rows
					same(t, what, "scaled feature", i%stride, i/stride, features[i], v)
				}
				// Any number of features, and none after them.
				for m := n - s.Vector + 1; m <= n; m++ {
					for _, k := range k.Project {
						rows, axes, dst := floats(t, (streams-1)*stride+m), floats(t, m*k.Axes), floats(t, streams*k.Axes)
						for _, v := range [][]float32{rows, axes, dst} {
							random(rng, v)
						}
						want, project := slices.Clone(dst), k.Many
						if streams == 1 {
							project = k.One
						}
						project(&dst[0], &axes[0], &rows[0], 4*stride, m)
						for i := range want {
							for j := range m {
								want[i] = canon.FMA(axes[j*k.Axes+i%k.Axes], rows[i/k.Axes*stride+j], want[i])
							}
							same(t, fmt.Sprintf("%d streams, %d features, %d directions", streams, m, k.Axes), "product", i%k.Axes, i/k.Axes, dst[i], want[i])
						}
					}
				}
			}
		}
	})
}

// TestTogether compares directions and other columns in one pass with their plain form.
func TestTogether(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		together := s.Features.Novelty.Together
		if together == nil {
			t.Log("none: readouts are computed apart from detectors")
			return
		}
		rng := rand.New(rand.NewPCG(3, 8))
		for _, n := range []int{1, 2, 31, NoveltyBlock} {
			for _, mask := range []int{0, 1, 0x8000, 0x3c0, 0xffff} {
				stride := n + rng.IntN(3)
				features, others := floats(t, (Streams-1)*stride+n), floats(t, (Streams-1)*NoveltyBlock+n)
				columns, dst := floats(t, n*TogetherColumns), floats(t, Streams*TogetherColumns)
				for _, v := range [][]float32{features, others, columns, dst} {
					random(rng, v)
				}
				want := slices.Clone(dst)
				together(&dst[0], &columns[0], &features[0], 4*stride, &others[0], mask, n)
				for i := range want {
					stream, c := i/TogetherColumns, i%TogetherColumns
					row := features[stride*stream:]
					if c >= TogetherDirections && mask>>(c-TogetherDirections)&1 == 1 {
						row = others[NoveltyBlock*stream:]
					}
					for j := range n {
						want[i] = canon.FMA(columns[j*TogetherColumns+c], row[j], want[i])
					}
					same(t, fmt.Sprintf("%d features, mask %x", n, mask), "product", c, stream, dst[i], want[i])
				}
			}
		}
	})
}

// TestWithin plants each kind of bad value at every place.
func TestWithin(t *testing.T) {
	const limit = 1e15
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachLevel(t, func(t *testing.T, s *Set) {
		for n := 1; n <= 9*s.Vector+1; n++ {
			v := floats(t, n)
			for i := range v {
				v[i] = limit * float32(1-2*(i%2))
			}
			if !s.Within(&v[0], n, limit) {
				t.Fatalf("%d values at the limit are refused", n)
			}
			for i, good := range v {
				for _, bad := range []float32{nan, -nan, inf, -inf, limit * 1.0001, -limit * 1.0001} {
					v[i] = bad
					if s.Within(&v[0], n, limit) {
						t.Fatalf("%v at %d of %d passes", bad, i, n)
					}
				}
				v[i] = good
			}
		}
	})
}
