package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

const mixedUnits, mixedLanes = 16, 8

// TestMixed compares the kernels of kind mixed with docs/mixed-bank.md, in memory
// that ends at their last access. (The conformance suite tests the choice of
// kernels and their requirements for the engine.)
func TestMixed(t *testing.T) {
	found := map[string]bool{}
	for _, s := range Levels() {
		if s.Mixed(true) == nil {
			continue
		}
		found[s.Name] = true
		t.Run(s.Name, func(t *testing.T) {
			for _, atEnd := range []bool{false, true} {
				guardAtEnd = atEnd
				rng := rand.New(rand.NewPCG(1, 16))
				for _, recurrent := range []bool{false, true} {
					for _, cubic := range []bool{false, true} {
						for _, c := range []mixedCase{{1, 1, 1, 0}, {6, 32, 1, 0}, {3, 2, 7, 0}, {2, 255, 9, 0}, {3, 64, 32768 + 9, 1}, {17, 5, 1<<17 - 2, 3}, {4, 33, 1<<20 + 1, 31}} {
							c.test(t, rng, s, recurrent, cubic)
						}
					}
				}
			}
		})
	}
	for _, name := range []string{"avx512", "avx2", "neon"} {
		if !found[name] && parts.Required(name) {
			t.Errorf("there are no kernels of kind mixed for %s, which EUSN_REQUIRE names", name)
		}
	}
}

type mixedCase struct{ inputs, count, number, mask int }

// mixedBlock is a block of the state, by unit and member.
type mixedBlock struct {
	h, sum, square, max [mixedUnits][mixedLanes]float32
	counts              [4][mixedUnits][mixedLanes]uint16
	positive            [mixedUnits][mixedLanes]bool
}

func (c mixedCase) test(t *testing.T, rng *rand.Rand, s *Set, recurrent, cubic bool) {
	what := fmt.Sprintf("recurrent %v, cubic %v, %+v", recurrent, cubic, c)
	others := 1
	if recurrent {
		others = mixedUnits
	}
	weights := random(rng, floats(t, mixedUnits*mixedLanes*(1+c.inputs+others)))
	values := random(rng, floats(t, c.count*c.inputs*mixedLanes))
	half := len(weights) / 2
	for i := range weights { // members 1 and 2 have units alike, 3 and 4 zeros of both signs, 5 very small and 6 very large biases
		switch lane, unit, row := i%mixedLanes, i%half/mixedLanes%8, i%half/64; {
		case lane == 1 && unit > 0 || lane == 2 && unit%2 > 0:
			weights[i] = weights[i-mixedLanes]
		case lane == 3 && row > 0 || lane == 4 && row > 0 || lane == 5 && row > 0:
			weights[i] = 0
		case lane == 3 || lane == 4 && unit%2 == 0:
			weights[i] = 0
		case lane == 4:
			weights[i] = float32(math.Copysign(0, -1))
		case lane == 5:
			weights[i] = math.Float32frombits(uint32(rng.IntN(4))) * float32(1-unit%2*2)
		case lane == 6 && row == 0:
			weights[i] *= 1e30
		}
	}
	var block mixedBlock
	for i := range mixedUnits {
		for lane := range mixedLanes {
			block.h[i][lane], block.sum[i][lane] = float32(rng.NormFloat64()), 100*float32(rng.NormFloat64())
			block.square[i][lane], block.max[i][lane] = 100*rng.Float32(), float32(rng.NormFloat64())
			block.positive[i][lane] = rng.IntN(2) == 0
			for kind := range block.counts {
				block.counts[kind][i][lane] = uint16(rng.IntN(1 << 15))
			}
		}
	}
	state, bits := guarded[uint32](t, 768, guardAtEnd), guarded[uint32](t, 4, guardAtEnd)
	block.put(state, bits)
	a := MixedSteps{
		Weights: &weights[0], Values: &values[0], State: &state[0], Bits: &bits[0],
		Signs: &random(rng, floats(t, MixedRoom))[0], Held: &random(rng, floats(t, MixedRoom))[0],
		Inputs: c.inputs, Count: c.count, Number: c.number, Mask: c.mask,
	}
	if k := s.Mixed(cubic); recurrent {
		k.Recurrent(&a)
	} else {
		k.Taps(&a)
	}
	for n := range c.count {
		block.step(weights, values[n*c.inputs*mixedLanes:], c.inputs, recurrent, cubic, (c.number+n)&c.mask == 0)
	}
	want, wantBits := make([]uint32, 768), make([]uint32, 4)
	block.put(want, wantBits)
	for w := range want {
		if state[w] != want[w] {
			t.Fatalf("%s: word %d of the state is %#x, want %#x", what, w, state[w], want[w])
		}
	}
	for w := range wantBits {
		if bits[w] != wantBits[w] {
			t.Fatalf("%s: word %d of the signs is %#x, want %#x", what, w, bits[w], wantBits[w])
		}
	}
}

func (m *mixedBlock) put(state, bits []uint32) {
	clear(bits)
	clear(state[512:])
	for i := range mixedUnits {
		for lane := range mixedLanes {
			p := mixedLanes*i + lane
			for part, v := range []*[mixedUnits][mixedLanes]float32{&m.h, &m.sum, &m.square, &m.max} {
				state[128*part+p] = math.Float32bits(v[i][lane])
			}
			for kind := range m.counts {
				state[512+64*kind+p/2] |= uint32(m.counts[kind][i][lane]) << (p % 2 * 16)
			}
			if m.positive[i][lane] {
				bits[p/32] |= 1 << (p % 32)
			}
		}
	}
}

func (m *mixedBlock) step(weights, values []float32, inputs int, recurrent, cubic, counted bool) {
	h := m.h
	for lane := range mixedLanes {
		var z [mixedUnits]float32
		for i := range z {
			// of half the units: rows of 8 units by 8 members
			half := weights[i/8*(len(weights)/2):]
			weight := func(row int) float32 { return half[64*row+i%8*mixedLanes+lane] }
			z[i] = weight(0)
			for k := range inputs {
				z[i] = canon.FMA(weight(1+k), values[k*mixedLanes+lane], z[i])
			}
			if !recurrent {
				z[i] = canon.FMA(weight(1+inputs), h[i][lane], z[i])
				continue
			}
			for k := range mixedUnits {
				z[i] = canon.FMA(weight(1+inputs+k), h[k][lane], z[i])
			}
		}
		for i, v := range z {
			m.h[i][lane] = mixedActivate(h[i][lane], v, cubic)
			if counted {
				m.count(i, lane, v, z[i/8*8:i/8*8+8])
			}
			m.positive[i][lane] = v > 0
		}
	}
}

func mixedActivate(h, z float32, cubic bool) float32 {
	if !cubic {
		return h + max(-1, min(1, z))
	}
	c := max(-1.5, min(1.5, z))
	p, q, s := float32(c*(-4./27)), float32(c*c), h+c
	return canon.FMA(p, q, s)
}

func (m *mixedBlock) count(i, lane int, z float32, group []float32) {
	h := m.h[i][lane]
	m.sum[i][lane] += h
	m.square[i][lane] = canon.FMA(h, h, m.square[i][lane])
	if z > m.max[i][lane] {
		m.max[i][lane] = z
	}
	most, least := true, true
	for _, other := range group {
		most, least = most && z >= other, least && z <= other
	}
	for kind, yes := range []bool{z > 0, z > 0 != m.positive[i][lane], most, least} {
		if yes {
			m.counts[kind][i][lane]++
		}
	}
}
