package cpu

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// packed is a member's weights as the generic step reads them: float64 copies
// of the float32 values, because the product of two float32 is exact in
// float64 and converting once saves a conversion per multiply-add.
type packed struct {
	units  int
	inputs []int32
	ring   []float64 // resn: the only recurrent weight of each unit
	// blocks of 4 units: bias x4, then x4 per input, then x4 per state unit
	blocks     []float64
	keep, gain float32
}

const lanes = 4 // units in a block: enough independent chains to hide latency

func padded(units int) int { return (units + lanes - 1) / lanes * lanes }

func pack(s reservoir.Spec, m reservoir.Member) packed {
	n, x := s.Units, len(m.Inputs)
	p := packed{units: n, inputs: m.Inputs, keep: m.Keep, gain: m.Gain}
	states := n
	if s.Kind == reservoir.RESN {
		states = 0
		p.ring = make([]float64, padded(n))
		for i, w := range m.Recurrent {
			p.ring[i] = float64(w)
		}
	}
	for b := 0; b < n; b += lanes {
		put := func(v []float32, stride, at int) {
			for i := b; i < b+lanes; i++ {
				w := 0.0
				if i < n {
					w = float64(v[i*stride+at])
				}
				p.blocks = append(p.blocks, w)
			}
		}
		put(m.Bias, 1, 0)
		for c := range x {
			put(m.Input, x, c)
		}
		for k := range states {
			put(m.Recurrent, n, k)
		}
	}
	return p
}

// advanceMember takes n transformed samples of the chunk into one member's part
// of a state; steps counts the earlier samples.
//
// Canonical step, unit i: z = bias; z = fma(U[i][c], x[c], z) for the inputs c
// of the member, ascending; z = fma(M[i][k], h[k], z) for the units k,
// ascending (resn: its one predecessor); h' = fma(gain, Tanh(z), keep*h).
func (g *genericEngine) advanceMember(m *packed, words []uint32, n int, steps uint64) {
	h, next := g.cur, g.nxt
	state := words[g.layout.State : g.layout.State+m.units]
	for i, w := range state {
		h[i] = float64(math.Float32frombits(w))
	}
	x := len(g.sample)
	for t := range n {
		in := g.inputs[t*x : (t+1)*x]
		fold := (steps+uint64(t)+1)%engine.FoldEvery == 0
		w := m.blocks
		for b := 0; b < m.units; b += lanes {
			var z [lanes]float64
			z, w = m.arguments(w, in, h)
			for i := b; i < min(b+lanes, m.units); i++ {
				z := z[i-b]
				if m.ring != nil {
					z = canon.Round(m.ring[i]*h[(i+m.units-1)%m.units], z)
				}
				v := canon.Tanh(float32(z))
				s := canon.FMA(m.gain, v, m.keep*float32(h[i]))
				next[i] = float64(s)
				g.accumulate(words, i, float32(z), v, s, fold)
			}
		}
		h, next = next, h
	}
	for i := range state {
		state[i] = math.Float32bits(float32(h[i]))
	}
}

// arguments computes four units' tanh arguments (without a ring's recurrent
// term) and returns the weights after theirs.
func (m *packed) arguments(w, in, h []float64) ([lanes]float64, []float64) {
	z := [lanes]float64(w)
	w = w[lanes:]
	for _, c := range m.inputs {
		for i := range z {
			z[i] = canon.Round(w[i]*in[c], z[i])
		}
		w = w[lanes:]
	}
	if m.ring != nil {
		return z, w
	}
	z0, z1, z2, z3 := z[0], z[1], z[2], z[3]
	for _, x := range h[:m.units] {
		v := (*[lanes]float64)(w)
		s0, s1, s2, s3 := v[0]*x+z0, v[1]*x+z1, v[2]*x+z2, v[3]*x+z3
		if canon.Awkward(s0) || canon.Awkward(s1) || canon.Awkward(s2) || canon.Awkward(s3) {
			s0, s1 = canon.Round(v[0]*x, z0), canon.Round(v[1]*x, z1)
			s2, s3 = canon.Round(v[2]*x, z2), canon.Round(v[3]*x, z3)
		}
		z0, z1, z2, z3 = float64(float32(s0)), float64(float32(s1)), float64(float32(s2)), float64(float32(s3))
		w = w[lanes:]
	}
	return [lanes]float64{z0, z1, z2, z3}, w
}

// accumulate adds one sample of unit i to the state's accumulators: z the tanh
// argument, v the tanh, s the new state.
func (g *genericEngine) accumulate(words []uint32, i int, z, v, s float32, fold bool) {
	l := &g.layout
	if l.SumLow >= 0 {
		sum(words, i+l.SumLow, i+l.SumHigh, float32frombits(words[i+l.SumLow])+s, fold)
	}
	if l.Positive >= 0 && z > 0 {
		words[i+l.Positive]++
	}
	if l.Max >= 0 && v > float32frombits(words[i+l.Max]) {
		words[i+l.Max] = math.Float32bits(v)
	}
	if l.SquareLow >= 0 {
		sum(words, i+l.SquareLow, i+l.SquareHigh, canon.FMA(s, s, float32frombits(words[i+l.SquareLow])), fold)
	}
}

// sum stores a new low-level sum, or adds it to the high level.
func sum(words []uint32, low, high int, v float32, fold bool) {
	if fold {
		words[high] = math.Float32bits(float32frombits(words[high]) + v)
		v = 0
	}
	words[low] = math.Float32bits(v)
}

func float32frombits(u uint32) float32 { return math.Float32frombits(u) }
