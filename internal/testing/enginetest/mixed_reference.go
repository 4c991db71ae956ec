package enginetest

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// mixedReference computes networks of kind mixed: docs/mixed-bank.md. It keeps all inputs
// of the sequence, and computes the ring when the state is read.
type mixedReference struct {
	net      *reservoir.Network
	steps    uint64
	previous []float32
	inputs   map[uint64][]float32 // by sample number
	members  []mixedMember
}

type mixedMember struct {
	h, sum, square, max [16]float32
	counts              [4][16]uint32 // ppv, sc, win, lose
	positive            [16]bool
}

func newMixedReference(net *reservoir.Network) *mixedReference {
	r := &mixedReference{net: net, previous: make([]float32, net.Spec.Channels), inputs: map[uint64][]float32{}, members: make([]mixedMember, len(net.Members))}
	for k := range r.members {
		for i := range 16 {
			r.members[k].max[i] = -math.MaxFloat32
		}
	}
	return r
}

func (r *mixedReference) step(sample []float32) {
	s := r.net.Spec
	var x []float32
	for c, v := range sample {
		if s.Standardize {
			v = (v - r.net.Norm.Mean[c]) * r.net.Norm.Scale[c]
		}
		x = append(x, v)
	}
	for c, v := range sample {
		if d := (v - r.previous[c]) * r.net.Norm.Diff[c]; s.Difference && r.steps > 0 {
			x = append(x, d)
		} else if s.Difference {
			x = append(x, 0)
		}
	}
	copy(r.previous, sample)
	r.steps++
	r.inputs[r.steps] = x
	stride := uint64(1)
	for r.steps > 32768*stride {
		stride *= 2
	}
	for k := range r.members {
		m := &r.members[k]
		m.step(s.Taps.Activation, r.arguments(k), r.steps%stride == 0)
		if r.steps == 32768*stride {
			m.halve()
		}
	}
}

// input returns the input of lag samples earlier, 0 before the start of the sequence.
func (r *mixedReference) input(c, lag int32) float32 {
	if x := r.inputs[r.steps-uint64(lag)]; x != nil {
		return x[c]
	}
	return 0
}

func (r *mixedReference) arguments(k int) (z [16]float32) {
	w, h := r.net.Members[k], &r.members[k].h
	for i := range z {
		z[i] = w.Bias[i]
		for j, c := range w.Inputs {
			lag := int32(0)
			if w.Lags != nil {
				lag = w.Lags[j]
			}
			z[i] = canon.FMA(w.Input[i*len(w.Inputs)+j], r.input(c, lag), z[i])
		}
		if w.Lags != nil {
			z[i] = canon.FMA(w.Recurrent[i], h[i], z[i])
			continue
		}
		for j := range h {
			z[i] = canon.FMA(w.Recurrent[i*16+j], h[j], z[i])
		}
	}
	return z
}

func (m *mixedMember) step(a reservoir.Activation, z [16]float32, counted bool) {
	for i, z := range z {
		m.h[i] = activate(a, m.h[i], z)
	}
	for i, v := range z {
		if counted {
			m.sum[i] += m.h[i]
			m.square[i] = canon.FMA(m.h[i], m.h[i], m.square[i])
			if v > m.max[i] { // of two zeros the first wins
				m.max[i] = v
			}
			group := z[i/8*8 : i/8*8+8]
			most, least := true, true
			for _, other := range group {
				most, least = most && v >= other, least && v <= other
			}
			for k, yes := range []bool{v > 0, v > 0 != m.positive[i], most, least} {
				if yes {
					m.counts[k][i]++
				}
			}
		}
		m.positive[i] = v > 0
	}
}

func activate(a reservoir.Activation, h, z float32) float32 {
	switch a {
	case reservoir.Tanh:
		return h + canon.Tanh(z)
	case reservoir.Clip:
		return h + max(-1, min(1, z))
	}
	c := max(-1.5, min(1.5, z))
	p, q, s := c*(-4./27), c*c, h+c
	return canon.FMA(p, q, s)
}

func (m *mixedMember) halve() {
	for i := range 16 {
		m.sum[i] /= 2
		m.square[i] /= 2
		for k := range m.counts {
			m.counts[k][i] /= 2
		}
	}
}

func (r *mixedReference) words() []uint32 {
	s := r.net.Spec
	words := []uint32{uint32(r.steps), uint32(r.steps >> 32)}
	put := func(v float32) { words = append(words, math.Float32bits(v)) }
	if s.Difference {
		for _, v := range r.previous {
			put(v)
		}
	}
	lags := uint64(s.Taps.MaxLag)
	for c := range s.Inputs() {
		for slot := range lags {
			// the last sample t with (t-1) mod lags = slot
			t := r.steps - (r.steps+lags-1-slot)%lags
			if r.steps == 0 || t > r.steps || r.inputs[t] == nil {
				put(0)
			} else {
				put(r.inputs[t][c])
			}
		}
	}
	for b := 0; b < len(r.members); b += 8 {
		words = append(words, signsOf(r.members[b:b+8])...)
	}
	for b := 0; b < len(r.members); b += 8 {
		words = append(words, blockOf(r.members[b:b+8])...)
	}
	return words
}

// signsOf returns the signs of eight members.
func signsOf(members []mixedMember) []uint32 {
	signs := make([]uint32, 4)
	for k := range members {
		for i := range 16 {
			if p := 8*i + k; members[k].positive[i] {
				signs[p/32] |= 1 << (p % 32)
			}
		}
	}
	return signs
}

// blockOf returns the state of eight members, without the signs.
func blockOf(members []mixedMember) []uint32 {
	block := make([]uint32, 768)
	for k := range members {
		m := &members[k]
		for i := range 16 {
			p := 8*i + k
			for part, v := range []float32{m.h[i], m.sum[i], m.square[i], m.max[i]} {
				block[128*part+p] = math.Float32bits(v)
			}
			for kind := range m.counts {
				block[512+64*kind+p/2] |= m.counts[kind][i] << (16 * (p % 2))
			}
		}
	}
	return block
}

func (r *mixedReference) features() []float32 {
	s := uint64(1)
	for r.steps >= 32768*s {
		s *= 2
	}
	f := make([]float32, 0, len(r.members)*16*8)
	n := float32(r.steps / s)
	for k := range r.members {
		m := &r.members[k]
		for _, name := range reservoir.MixedFeatures {
			for i := range 16 {
				v := float32(0)
				if r.steps > 0 {
					v = m.feature(name, r.net.Spec.Taps.Activation, i, n)
				}
				f = append(f, v)
			}
		}
	}
	return f
}

func (m *mixedMember) feature(name reservoir.Feature, a reservoir.Activation, i int, n float32) float32 {
	mean := m.sum[i] / n
	switch name {
	case reservoir.Last:
		return m.h[i]
	case reservoir.Mean:
		return mean
	case reservoir.Max:
		return activate(a, 0, m.max[i])
	case reservoir.Std:
		return float32(math.Sqrt(float64(max(0, canon.FMA(-mean, mean, m.square[i]/n)))))
	case reservoir.Positive:
		return float32(m.counts[0][i]) / n
	case reservoir.Changes:
		return float32(m.counts[1][i]) / n
	case reservoir.Win:
		return float32(m.counts[2][i]) / n
	}
	return float32(m.counts[3][i]) / n
}
