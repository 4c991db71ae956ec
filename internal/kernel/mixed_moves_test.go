package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// TestMixedGather: every value arrives, and none beyond a member's last is read.
func TestMixedGather(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		m := s.Mixed(true)
		if m == nil {
			t.Skip("NOT CHECKED: no kernels of kind mixed")
		}
		rng := rand.New(rand.NewPCG(2, 2))
		for n := 1; n <= 33; n++ {
			for _, inputs := range []int{1, 2, 7} {
				series := random(rng, floats(t, n+20))
				values, at := floats(t, n*inputs*8), guarded[int32](t, inputs*8, guardAtEnd)
				for i := range at {
					at[i] = 4 * rng.Int32N(21)
				}
				at[rng.IntN(len(at))] = 4 * 20 // ends with the series
				m.Gather(&values[0], &series[0], &at[0], inputs, n)
				for i := range values {
					sample, input, member := i/8/inputs, i/8%inputs, i%8
					same(t, fmt.Sprintf("%d samples of %d inputs", n, inputs), fmt.Sprintf("sample %d", sample), input, member, values[i], series[int(at[input*8+member])/4+sample])
				}
			}
		}
	})
}

// TestMixedFeatures compares the features of a block with docs/mixed-bank.md,
// one operation after another.
func TestMixedFeatures(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		rng := rand.New(rand.NewPCG(3, 3))
		for _, cubic := range []bool{false, true} {
			m := s.Mixed(cubic)
			if m == nil {
				t.Skip("NOT CHECKED: no kernels of kind mixed")
			}
			for _, count := range []int{1, 3, 1000, 32767} {
				b, state := randomMixedBlock(rng, count), guarded[uint32](t, 768, guardAtEnd)
				b.put(state, make([]uint32, 4))
				features := floats(t, 8*mixedUnits*mixedLanes)
				m.Features(&features[0], &state[0], float32(count))
				for lane := range mixedLanes {
					for i := range mixedUnits {
						for k, want := range b.features(i, lane, float32(count), cubic) {
							same(t, fmt.Sprintf("%d samples, cubic %v", count, cubic), fmt.Sprintf("feature %d", k), i, lane, features[(lane*8+k)*mixedUnits+i], want)
						}
					}
				}
			}
		}
	})
}

// TestMixedShares compares shares of counts with the quotients, for every number of samples
// there is and random counts. (All 2^32 pairs of numbers below 2^16 were compared once, in C.)
func TestMixedShares(t *testing.T) {
	for _, s := range Levels() {
		m := s.Mixed(true)
		if m == nil {
			continue
		}
		rng, state, features := rand.New(rand.NewPCG(4, 3)), make([]uint32, 768), make([]float32, 8*mixedUnits*mixedLanes)
		for n := 1; n <= 1<<15; n++ {
			counts := state[512:]
			for i := range counts {
				counts[i] = uint32(rng.IntN(n+1)) | uint32(rng.IntN(n+1))<<16
			}
			m.Features(&features[0], &state[0], float32(n))
			for kind, feature := range []int{2, 5, 6, 7} {
				for place := range mixedUnits * mixedLanes {
					k := counts[64*kind+place/2] >> (place % 2 * 16) & 0xffff
					if got, want := features[(place%mixedLanes*8+feature)*mixedUnits+place/mixedLanes], float32(k)/float32(n); got != want {
						t.Fatalf("%s: %d of %d is %v, want %v", s.Name, k, n, got, want)
					}
				}
			}
		}
	}
}

// randomMixedBlock is a state after count samples: some units have never moved,
// some have a variance that rounding makes negative.
func randomMixedBlock(rng *rand.Rand, count int) *mixedBlock {
	b, n := new(mixedBlock), float32(count)
	for i := range mixedUnits {
		for lane := range mixedLanes {
			x := float32(rng.NormFloat64())
			b.h[i][lane], b.sum[i][lane], b.square[i][lane] = x, n*x, n*x*x*(1+rng.Float32()*float32(lane%2))
			b.max[i][lane] = [...]float32{2 * x, 0, float32(math.Copysign(0, -1)), -math.MaxFloat32, 1.5, -1}[rng.IntN(6)]
			if lane == i%mixedLanes {
				b.h[i][lane], b.sum[i][lane], b.square[i][lane] = 0, 0, 0
			}
			for k := range b.counts {
				b.counts[k][i][lane] = uint16(rng.IntN(count + 1))
			}
		}
	}
	return b
}

func (m *mixedBlock) features(i, lane int, n float32, cubic bool) [8]float32 {
	share := func(kind int) float32 { return float32(m.counts[kind][i][lane]) / n }
	mean := m.sum[i][lane] / n
	std := canon.FMA(-mean, mean, m.square[i][lane]/n)
	if std > 0 {
		std = float32(math.Sqrt(float64(std)))
	} else {
		std = 0
	}
	return [8]float32{m.h[i][lane], mean, share(0), mixedActivate(0, m.max[i][lane], cubic), std, share(1), share(2), share(3)}
}
