package enginetest

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// reference computes one stream's sequence in the simplest way, directly from the
// documentation: no blocks, no packing, no chunks.
type reference interface {
	step(sample []float32)
	words() []uint32 // the state in the layout of the recipe
	features() []float32
}

func newReference(net *reservoir.Network) reference {
	if net.Spec.Kind == reservoir.Mixed {
		return newMixedReference(net)
	}
	return newPaperReference(net)
}

// paperReference computes the paper's kinds: reservoir/doc.go.
type paperReference struct {
	net      *reservoir.Network
	steps    uint64
	previous []float32
	members  []refMember
}

type refMember struct {
	h, sumLow, sumHigh, max, sqLow, sqHigh []float32
	positive                               []uint32
}

func newPaperReference(net *reservoir.Network) *paperReference {
	r := &paperReference{net: net, previous: make([]float32, net.Spec.Channels)}
	n := net.Spec.Units
	for range net.Members {
		m := refMember{make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]uint32, n)}
		for i := range m.max {
			m.max[i] = -1
		}
		r.members = append(r.members, m)
	}
	return r
}

func (r *paperReference) step(sample []float32) {
	s := r.net.Spec
	x := make([]float32, 0, s.Inputs())
	for c, v := range sample {
		if s.Standardize {
			v = (v - r.net.Norm.Mean[c]) * r.net.Norm.Scale[c]
		}
		x = append(x, v)
	}
	if s.Difference {
		for c, v := range sample {
			d := float32(0)
			if r.steps > 0 {
				d = (v - r.previous[c]) * r.net.Norm.Diff[c]
			}
			x = append(x, d)
		}
	}
	copy(r.previous, sample)
	r.steps++
	for k := range r.members {
		r.members[k].step(s, r.net.Members[k], x, r.steps%engine.FoldEvery == 0)
	}
}

func (m *refMember) step(s reservoir.Spec, w reservoir.Member, x []float32, fold bool) {
	n := s.Units
	next := make([]float32, n)
	for i := range n {
		z := w.Bias[i]
		for k, c := range w.Inputs {
			z = canon.FMA(w.Input[i*len(w.Inputs)+k], x[c], z)
		}
		if s.Kind == reservoir.RESN {
			z = canon.FMA(w.Recurrent[i], m.h[(i+n-1)%n], z)
		} else {
			for k := range n {
				z = canon.FMA(w.Recurrent[i*n+k], m.h[k], z)
			}
		}
		v := canon.Tanh(z)
		next[i] = canon.FMA(w.Gain, v, w.Keep*m.h[i])
		if z > 0 {
			m.positive[i]++
		}
		m.max[i] = max(m.max[i], v)
		m.sumLow[i] += next[i]
		m.sqLow[i] = canon.FMA(next[i], next[i], m.sqLow[i])
		if fold {
			m.sumHigh[i] += m.sumLow[i]
			m.sqHigh[i] += m.sqLow[i]
			m.sumLow[i], m.sqLow[i] = 0, 0
		}
	}
	m.h = next
}

func (r *paperReference) words() []uint32 {
	s, l := r.net.Spec, engine.LayoutOf(r.net.Spec)
	words := make([]uint32, l.Words)
	words[0], words[1] = uint32(r.steps), uint32(r.steps>>32)
	put := func(at int, v []float32) {
		for i, x := range v {
			words[at+i] = math.Float32bits(x)
		}
	}
	if l.Previous >= 0 {
		put(l.Previous, r.previous)
	}
	for k, m := range r.members {
		at := l.Member(k)
		for _, p := range []struct {
			at int
			v  []float32
		}{{l.State, m.h}, {l.SumLow, m.sumLow}, {l.SumHigh, m.sumHigh}, {l.Max, m.max}, {l.SquareLow, m.sqLow}, {l.SquareHigh, m.sqHigh}} {
			if p.at >= 0 {
				put(at+p.at, p.v)
			}
		}
		if l.Positive >= 0 {
			copy(words[at+l.Positive:at+l.Positive+s.Units], m.positive)
		}
	}
	return words
}

func (r *paperReference) features() []float32 {
	var f []float32
	n := float32(r.steps)
	for _, m := range r.members {
		for _, name := range reservoir.AllFeatures {
			if !r.net.Spec.Has(name) {
				continue
			}
			for i := range m.h {
				v := float32(0)
				if r.steps > 0 {
					v = m.feature(name, i, n)
				}
				f = append(f, v)
			}
		}
	}
	return f
}

func (m *refMember) feature(name reservoir.Feature, i int, n float32) float32 {
	mean := (m.sumHigh[i] + m.sumLow[i]) / n
	switch name {
	case reservoir.Last:
		return m.h[i]
	case reservoir.Mean:
		return mean
	case reservoir.Positive:
		return float32(m.positive[i]) / n
	case reservoir.Max:
		return m.max[i]
	}
	square := (m.sqHigh[i] + m.sqLow[i]) / n
	return float32(math.Sqrt(float64(max(0, canon.FMA(-mean, mean, square)))))
}
