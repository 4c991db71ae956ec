package cpu

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// mixedSteps is the generic engine's step of kind mixed, as docs/mixed-bank.md
// defines it: the reference for every other engine.
type mixedSteps struct {
	net     *reservoir.Network
	layout  engine.Layout
	members []mixedMember
	add     func(h, z float32) float32

	inputs mixedInputs
	// series holds for each transformed input the values before the chunk, one
	// for each lag, and the values of the chunk.
	series []float64
	width  int // of one input in series
}

// mixedInputs makes the inputs of kind mixed.
type mixedInputs struct {
	net              *reservoir.Network
	previousAt       int // of the state, see Layout
	sample, previous []float32
}

func newMixedInputs(net *reservoir.Network, layout *engine.Layout) mixedInputs {
	return mixedInputs{net, layout.Previous, make([]float32, net.Spec.Inputs()), make([]float32, net.Spec.Channels)}
}

// mixedMember is a member's weights as the step reads them; see packed.
type mixedMember struct {
	inputs []mixedInput
	own    *[canon.MixedUnits]float64 // of a tap member: each unit's weight of its own state
	others [][canon.MixedUnits]float64
	bias   [canon.MixedUnits]float64
}

// mixedInput is an input, or a tap: the start of its values in a series, for
// the chunk's first sample, and its weights.
type mixedInput struct {
	at      int
	weights [canon.MixedUnits]float64
}

// mixedUnitStates is a member's part of a state, unpacked.
type mixedUnitStates struct {
	h, sum, square, max [canon.MixedUnits]float32
	counts              [engine.CountKinds][canon.MixedUnits]uint32
	positive            [canon.MixedUnits]bool
}

func newMixedSteps(net *reservoir.Network, layout engine.Layout) *mixedSteps {
	s := net.Spec
	g := &mixedSteps{
		net: net, layout: layout, add: engine.ActivationOf(s.Taps.Activation), width: s.Taps.MaxLag + chunk,
		inputs: newMixedInputs(net, &layout),
	}
	g.series = make([]float64, s.Inputs()*g.width)
	for r := range net.Members {
		g.members = append(g.members, g.pack(&net.Members[r]))
	}
	return g
}

func (g *mixedSteps) pack(m *reservoir.Member) mixedMember {
	column := func(v []float32, stride, at int) (c [canon.MixedUnits]float64) {
		for i := range c {
			c[i] = float64(v[i*stride+at])
		}
		return c
	}
	p := mixedMember{bias: column(m.Bias, 1, 0)}
	for k, c := range m.Inputs {
		at := int(c)*g.width + g.layout.Mixed.Lags
		if m.Lags != nil {
			at -= int(m.Lags[k])
		}
		p.inputs = append(p.inputs, mixedInput{at, column(m.Input, len(m.Inputs), k)})
	}
	if m.Lags != nil {
		own := column(m.Recurrent, 1, 0)
		p.own = &own
		return p
	}
	for k := range canon.MixedUnits {
		p.others = append(p.others, column(m.Recurrent, canon.MixedUnits, k))
	}
	return p
}

// advance takes samples into one state, chunk by chunk.
func (g *mixedSteps) advance(state []uint32, inputs []float32, from, to int) {
	steps := g.layout.Steps(state)
	for from < to {
		n := min(chunk, to-from)
		g.load(state, inputs, from, n, steps)
		for r := range g.members {
			g.advanceMember(r, state, n, steps)
		}
		from += n
		steps += uint64(n)
	}
	g.layout.SetSteps(state, steps)
}

// load puts the past inputs and n transformed samples into series, and leaves
// the past of the next sample in the state's ring.
func (g *mixedSteps) load(state []uint32, inputs []float32, from, n int, steps uint64) {
	m, c := g.layout.Mixed, g.net.Spec.Channels
	for i := range m.Inputs {
		ring, series := state[m.Ring+i*m.Lags:][:m.Lags], g.series[i*g.width:]
		for k := range m.Lags { // the oldest first
			series[k] = float64(math.Float32frombits(ring[(int(steps%uint64(m.Lags))+k)%m.Lags]))
		}
	}
	for t := range n {
		g.inputs.transform(state, inputs[(from+t)*c:(from+t+1)*c], steps+uint64(t) == 0)
		slot := int((steps + uint64(t)) % uint64(m.Lags))
		for i, v := range g.inputs.sample {
			g.series[i*g.width+m.Lags+t] = float64(v)
			state[m.Ring+i*m.Lags+slot] = math.Float32bits(v)
		}
	}
}

// transform computes the network's inputs of one sample, and stores the sample
// in the state.
func (g *mixedInputs) transform(state []uint32, sample []float32, first bool) {
	at := g.previousAt
	if at < 0 {
		g.net.Transform(g.sample, sample, nil)
		return
	}
	before := state[at : at+len(sample)]
	for i, w := range before {
		g.previous[i] = math.Float32frombits(w)
		before[i] = math.Float32bits(sample[i])
	}
	if first {
		g.net.Transform(g.sample, sample, nil)
	} else {
		g.net.Transform(g.sample, sample, g.previous)
	}
}

// advanceMember takes the chunk's n samples into member r.
func (g *mixedSteps) advanceMember(r int, state []uint32, n int, steps uint64) {
	u := g.unpack(r, state)
	every := engine.Stride(steps + 1)
	for t := range n {
		z := g.arguments(&g.members[r], &u, t)
		number := steps + uint64(t) + 1
		take := number%every == 0
		for i, z := range z {
			u.h[i] = g.add(u.h[i], z)
			positive := z > 0
			if take {
				u.accumulate(i, z, positive)
			}
			u.positive[i] = positive
		}
		if take {
			u.extremes(&z)
		}
		if number == engine.ThinAt*every {
			u.halve()
			every *= 2
		}
	}
	g.put(r, state, &u)
}

// arguments computes the activations' arguments of sample t of the chunk: the
// bias, inputs or taps in order, then states.
func (g *mixedSteps) arguments(m *mixedMember, u *mixedUnitStates, t int) (out [canon.MixedUnits]float32) {
	z := m.bias
	for k := range m.inputs {
		in := &m.inputs[k]
		addProduct(&z, &in.weights, g.series[in.at+t])
	}
	if m.own != nil {
		for i := range z {
			z[i] = canon.Round(m.own[i]*float64(u.h[i]), z[i])
		}
	}
	for k := range m.others {
		addProduct(&z, &m.others[k], float64(u.h[k]))
	}
	for i, z := range z {
		out[i] = float32(z)
	}
	return out
}

// addProduct is z = fma(w, x, z) of every unit.
func addProduct(z, w *[canon.MixedUnits]float64, x float64) {
	for i := 0; i < canon.MixedUnits; i += 4 {
		z, w := (*[4]float64)(z[i:]), (*[4]float64)(w[i:])
		s0, s1, s2, s3 := w[0]*x+z[0], w[1]*x+z[1], w[2]*x+z[2], w[3]*x+z[3]
		if canon.Awkward(s0) || canon.Awkward(s1) || canon.Awkward(s2) || canon.Awkward(s3) {
			z[0], z[1] = canon.Round(w[0]*x, z[0]), canon.Round(w[1]*x, z[1])
			z[2], z[3] = canon.Round(w[2]*x, z[2]), canon.Round(w[3]*x, z[3])
			continue
		}
		z[0], z[1], z[2], z[3] = float64(float32(s0)), float64(float32(s1)), float64(float32(s2)), float64(float32(s3))
	}
}

// accumulate counts one sample of unit i, whose state is already new and whose
// sign is still the sign of the previous sample.
func (u *mixedUnitStates) accumulate(i int, z float32, positive bool) {
	u.sum[i] += u.h[i]
	u.square[i] = canon.FMA(u.h[i], u.h[i], u.square[i])
	if z > u.max[i] {
		u.max[i] = z
	}
	if positive {
		u.counts[engine.CountPositive][i]++
	}
	if positive != u.positive[i] {
		u.counts[engine.CountChanges][i]++
	}
}

// extremes counts all units with the largest or the smallest argument of their
// group.
func (u *mixedUnitStates) extremes(z *[canon.MixedUnits]float32) {
	for g := 0; g < canon.MixedUnits; g += canon.GroupUnits {
		most, least := z[g], z[g]
		for _, v := range z[g+1 : g+canon.GroupUnits] {
			most, least = max(most, v), min(least, v)
		}
		for i := g; i < g+canon.GroupUnits; i++ {
			if z[i] == most {
				u.counts[engine.CountWin][i]++
			}
			if z[i] == least {
				u.counts[engine.CountLose][i]++
			}
		}
	}
}

// halve makes sums and counts equal to sums and counts of half as many samples.
func (u *mixedUnitStates) halve() {
	for i := range canon.MixedUnits {
		u.sum[i], u.square[i] = float32(u.sum[i]*.5), float32(u.square[i]*.5)
		for k := range u.counts {
			u.counts[k][i] /= 2
		}
	}
}

// unpack reads member r's part of a state.
func (g *mixedSteps) unpack(r int, state []uint32) (u mixedUnitStates) {
	for i := range canon.MixedUnits {
		place, at := g.layout.Mixed.At(&g.layout, r, i)
		block := state[at : at+engine.BlockWords]
		value := func(part int) float32 { return math.Float32frombits(block[part+place]) }
		u.h[i], u.sum[i], u.square[i], u.max[i] = value(engine.BlockState), value(engine.BlockSum), value(engine.BlockSquare), value(engine.BlockMax)
		for k := range u.counts {
			u.counts[k][i] = engine.ReadCount(block, k, place)
		}
		sign, bit := g.layout.Mixed.Sign(state, r, place)
		u.positive[i] = *sign&bit != 0
	}
	return u
}

// put writes u to the state.
func (g *mixedSteps) put(r int, state []uint32, u *mixedUnitStates) {
	for i := range canon.MixedUnits {
		place, at := g.layout.Mixed.At(&g.layout, r, i)
		block := state[at : at+engine.BlockWords]
		put := func(part int, v float32) { block[part+place] = math.Float32bits(v) }
		put(engine.BlockState, u.h[i])
		put(engine.BlockSum, u.sum[i])
		put(engine.BlockSquare, u.square[i])
		put(engine.BlockMax, u.max[i])
		for k := range u.counts {
			engine.WriteCount(block, k, place, u.counts[k][i])
		}
		sign, bit := g.layout.Mixed.Sign(state, r, place)
		*sign &^= bit
		if u.positive[i] {
			*sign |= bit
		}
	}
}
