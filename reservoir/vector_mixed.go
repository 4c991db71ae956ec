package reservoir

import (
	"math"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// mixedVector is the CPU engine of kind mixed on vector instructions: blocks of 8
// members in the lanes, one stream after the other, in the states where they lie.
// It equals Generic bit for bit. It works on one thread.
type mixedVector struct {
	pool
	set      *kernel.Set
	gather   func(dst *float32, stride int, rows **uint32, offset, n int)
	inputs   mixedInputs
	blocks   []mixedBlock
	readouts []linear
	width    int

	series   []float32 // as of mixedSteps
	values   []float32 // of a block's inputs, by sample, then input, then member
	features []float32
	scores   []float32 // one vector
	call     kernel.MixedSteps
}

// mixedBlock is 8 members.
type mixedBlock struct {
	run     func(*kernel.MixedSteps)
	inputs  int
	rows    []*uint32 // by input, then member: where it begins in the series
	weights []float32
}

// mixedChunk is how many samples a block takes before the next one does: few
// enough that they and the block's weights stay in the level 1 cache.
const mixedChunk = 32

var _ Engine = (*mixedVector)(nil)

// mixedKernels are the set's kernels for a recipe of kind mixed, nil where it has
// none.
func mixedKernels(set *kernel.Set, s Spec) *kernel.MixedKernels {
	if s.Taps.Activation == Tanh {
		return nil
	}
	return set.Mixed(s.Taps.Activation == Cubic)
}

// newMixedVector makes an engine with a pool of slots, all reset.
func newMixedVector(net *Network, slots int, set *kernel.Set) (*mixedVector, error) {
	p, err := newPool(net, slots)
	if err != nil {
		return nil, err
	}
	s, width := net.Spec, net.Spec.Taps.MaxLag+mixedChunk
	v := &mixedVector{
		pool: p, set: set, inputs: newMixedInputs(net, &p.layout),
		series: make([]float32, s.Inputs()*width), features: make([]float32, s.FeatureCount()), scores: kernel.Aligned(set.Vector),
	}
	kernels, most := mixedKernels(set, s), 0
	v.gather = kernels.Load
	for r := 0; r < s.Members; r += laneCount {
		b := mixedBlock{run: kernels.Taps}
		if !s.taps(r) {
			b.run = kernels.Recurrent
		}
		b.pack(net.Members[r:r+laneCount], v.series, width, s.Taps.MaxLag)
		most = max(most, b.inputs)
		v.blocks = append(v.blocks, b)
	}
	v.values = kernel.Aligned(mixedChunk * most * laneCount)
	v.call.Signs, v.call.Held = &kernel.Aligned(kernel.MixedRoom)[0], &kernel.Aligned(kernel.MixedRoom)[0]
	v.call.Values = &v.values[0]
	return v, nil
}

// pack arranges the members for the kernels. A member that sees fewer inputs than
// another of the block begins with weights of 0, which change no bit of its bias.
func (b *mixedBlock) pack(members []Member, series []float32, width, lags int) {
	for _, m := range members {
		b.inputs = max(b.inputs, len(m.Inputs))
	}
	b.rows = make([]*uint32, b.inputs*laneCount)
	for lane, m := range members {
		for k := range b.inputs {
			at, seen := lags, k-(b.inputs-len(m.Inputs))
			if seen >= 0 {
				at += int(m.Inputs[seen]) * width
			}
			if seen >= 0 && m.Lags != nil {
				at -= int(m.Lags[seen])
			}
			b.rows[k*laneCount+lane] = wordsOf(series[at:])
		}
	}
	others := len(members[0].Recurrent) / mixedUnits // units that a unit sees
	b.weights = kernel.Aligned(mixedUnits * laneCount * (1 + b.inputs + others))[:0]
	for half := 0; half < mixedUnits; half += groupUnits {
		put := func(weight func(m *Member, unit int) float32) {
			for unit := half; unit < half+groupUnits; unit++ {
				for lane := range members {
					b.weights = append(b.weights, weight(&members[lane], unit))
				}
			}
		}
		put(func(m *Member, unit int) float32 { return m.Bias[unit] })
		for k := range b.inputs {
			put(func(m *Member, unit int) float32 {
				if seen := k - (b.inputs - len(m.Inputs)); seen >= 0 {
					return m.Input[unit*len(m.Inputs)+seen]
				}
				return 0
			})
		}
		if members[0].Lags != nil {
			put(func(m *Member, unit int) float32 { return m.Recurrent[unit] })
			continue
		}
		for k := range mixedUnits {
			put(func(m *Member, unit int) float32 { return m.Recurrent[unit*mixedUnits+k] })
		}
	}
}

// Name implements Engine.
func (v *mixedVector) Name() string { return v.set.Name }

// ScoreWidth implements Engine.
func (v *mixedVector) ScoreWidth() int { return v.width }

// Steps is what CheckCall asks for.
func (v *mixedVector) Steps(slot int32) uint64 { return v.layout.Steps(v.state(slot)) }

// Close implements Engine.
func (v *mixedVector) Close() error {
	v.free()
	return nil
}

// SetReadouts implements Engine.
func (v *mixedVector) SetReadouts(readouts []*readout.Linear) error {
	width, err := CheckReadouts(v.net, readouts)
	if err != nil {
		return err
	}
	v.width, v.readouts = width, nil
	for _, h := range readouts {
		v.readouts = append(v.readouts, packReadout(h, v.set.Vector))
	}
	return nil
}

// Features implements Engine.
func (v *mixedVector) Features(slot int32, dst []float32) error {
	if err := v.checkFeatures(slot, dst); err != nil {
		return err
	}
	v.layout.FeaturesOf(v.net.Spec, v.state(slot), dst)
	return nil
}

// Advance implements Engine.
func (v *mixedVector) Advance(inputs []float32, runs []Run, scores []float32) error {
	if err := CheckCall(v, inputs, runs, scores); err != nil {
		return err
	}
	for _, r := range runs {
		state := v.state(r.Slot)
		if r.Reset {
			v.layout.Reset(v.net.Spec, state)
		}
		v.advance(state, inputs, int(r.From), int(r.To))
		if r.Emit && v.width > 0 {
			v.layout.FeaturesOf(v.net.Spec, state, v.features)
			v.emit(scores)
			scores = scores[v.width:]
		}
	}
	return nil
}

// emit writes the scores of the features.
func (v *mixedVector) emit(dst []float32) {
	vector, n := v.set.Vector, len(v.features)
	for i := range v.readouts {
		h := &v.readouts[i]
		for column := 0; column < h.Columns(); column += vector {
			block := h.blocks[column*(1+n):]
			v.set.Scores(&v.scores[0], &block[vector], &block[0], &h.Center[0], &v.features[0], 4*n, n)
			copy(dst[column:h.Columns()], v.scores)
		}
		dst = dst[h.Columns():]
	}
}

// advance takes samples into one state, chunk by chunk; none reaches over a
// sample after which the stride doubles.
func (v *mixedVector) advance(state []uint32, inputs []float32, from, to int) {
	steps := v.layout.Steps(state)
	for from < to {
		every := stride(steps + 1)
		n := int(min(mixedChunk, uint64(to-from), thinAt*every-steps))
		v.load(state, inputs, from, n, steps)
		v.call.Mask = int(every - 1)
		for i := range v.blocks {
			b, c := &v.blocks[i], &v.call
			for k := range b.inputs {
				v.gather(&v.values[k*laneCount], 4*laneCount*b.inputs, &b.rows[k*laneCount], 0, n)
			}
			c.Weights, c.State = &b.weights[0], &state[v.layout.First+i*blockWords]
			c.Bits = &state[v.layout.mixed.signs+i*signWords]
			c.Inputs, c.Count, c.Number = b.inputs, n, int(steps+1)
			b.run(c)
		}
		from += n
		steps += uint64(n)
		if steps == thinAt*every {
			v.halve(state)
		}
	}
	v.layout.setSteps(state, steps)
}

// load is that of mixedSteps.
func (v *mixedVector) load(state []uint32, inputs []float32, from, n int, steps uint64) {
	m, c := v.layout.mixed, v.net.Spec.Channels
	width, at := m.lags+mixedChunk, int(steps%uint64(m.lags))
	for i := range m.inputs {
		ring, series := floatsOf(state[m.ring+i*m.lags:], m.lags), v.series[i*width:]
		copy(series, ring[at:]) // the oldest first
		copy(series[m.lags-at:], ring[:at])
	}
	for t := range n {
		v.inputs.transform(state, inputs[(from+t)*c:(from+t+1)*c], steps+uint64(t) == 0)
		for i, x := range v.inputs.sample {
			v.series[i*width+m.lags+t] = x
			state[m.ring+i*m.lags+at] = math.Float32bits(x)
		}
		if at++; at == m.lags {
			at = 0
		}
	}
}

// halve makes sums and counts those of half as many samples.
func (v *mixedVector) halve(state []uint32) {
	for i := range v.blocks {
		block := state[v.layout.First+i*blockWords:][:blockWords]
		for w := blockSum; w < blockMax; w++ {
			block[w] = math.Float32bits(float32(math.Float32frombits(block[w]) * .5))
		}
		for w := blockCounts; w < blockWords; w++ {
			block[w] = block[w] >> 1 &^ 0x8000 // both halves
		}
	}
}
