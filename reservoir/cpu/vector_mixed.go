package cpu

import (
	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// mixedVector is the CPU engine of kind mixed on vector instructions: blocks of 8
// members in the lanes, one stream after another, in place in the states. It
// equals Generic bit for bit.
type mixedVector struct {
	vectorPool
	kernels *kernel.MixedKernels
	blocks  []mixedBlock
	turns   bool // the blocks are taken from the last to the first every second time
}

// mixedBlock is 8 members.
type mixedBlock struct {
	run     func(*kernel.MixedSteps)
	inputs  int
	taps    []int32 // by input, then member: its start in the series, in bytes
	weights []float32
	words   int // its first word of a state,
	signs   int // and its first word of signs
}

const (
	// mixedChunk is the number of samples of a block before the next block: few
	// enough that samples and the block's weights stay in the level 1 cache.
	mixedChunk = 32
	// mixedStreams is the maximum of streams that go through a block in
	// sequence while its weights are in the cache.
	mixedStreams = 8
	// mixedNear is how many bytes are in the level 1 cache between two calls, at most.
	mixedNear = 32 << 10
	// mixedRest is the cost of a unit's step without the multiply-adds of its
	// argument, in multiply-adds.
	mixedRest = 12
)

var _ engine.Judging = (*mixedVector)(nil)

// mixedKernels returns the set's kernels for a recipe of kind mixed, nil without
// such kernels.
func mixedKernels(set *kernel.Set, s reservoir.Spec) *kernel.MixedKernels {
	if s.Taps.Activation == reservoir.Tanh {
		return nil
	}
	return set.Mixed(s.Taps.Activation == reservoir.Cubic)
}

// newMixedVector makes an engine with a pool of slots, all reset.
func newMixedVector(net *reservoir.Network, slots int, set *kernel.Set, threads int) (*mixedVector, error) {
	v := &mixedVector{kernels: mixedKernels(set, net.Spec)}
	if err := v.init(net, slots, set); err != nil {
		return nil, err
	}
	s := &net.Spec
	for r := 0; r < s.Members; r += canon.BlockMembers {
		b := mixedBlock{run: v.kernels.Taps}
		if !s.HasTaps(r) {
			b.run = v.kernels.Recurrent
		}
		b.pack(net.Members[r:r+canon.BlockMembers], v.seriesWidth(), s.Taps.MaxLag)
		b.words, b.signs = v.layout.First+len(v.blocks)*engine.BlockWords, v.layout.Mixed.Signs+len(v.blocks)*engine.SignWords
		v.blocks = append(v.blocks, b)
	}
	// A stream's state and all weights exceed the level 1 cache, but not the next cache.
	// If every second call goes from the last block to the first, the level 1 cache holds
	// the last data of the previous call.
	v.turns = !v.far && v.bytes() > mixedNear
	v.featuresOf = v.writeFeatures
	v.plan.init(slots, threads, set.Vector)
	v.planTiles()
	v.gang.start(threads, func() itemWorker { return newMixedWorker(v) })
	return v, nil
}

// seriesWidth is the width of one input in a worker's series: the past and a chunk.
func (v *mixedVector) seriesWidth() int { return v.net.Spec.Taps.MaxLag + mixedChunk }

// bytes returns the size of a state and of all weights.
func (v *mixedVector) bytes() int {
	n := v.layout.Words
	for i := range v.blocks {
		n += len(v.blocks[i].weights)
	}
	return 4 * n
}

// planTiles gives the plan the size of a tile and the cost of a sample. Blocks
// are its members.
func (v *mixedVector) planTiles() {
	p := &v.plan
	p.lanes, p.members, p.tiling = mixedStreams, len(v.blocks), anyTiles
	for i := range v.blocks {
		p.perSample += float64(len(v.blocks[i].weights) + mixedRest*engine.BlockUnits)
	}
}

// pack arranges the members for the kernels. A member with fewer inputs than
// another of the block begins with weights of 0, which change no bit of its bias.
func (b *mixedBlock) pack(members []reservoir.Member, width, lags int) {
	for _, m := range members {
		b.inputs = max(b.inputs, len(m.Inputs))
	}
	b.taps = make([]int32, b.inputs*canon.BlockMembers)
	for lane, m := range members {
		for k := range b.inputs {
			at, seen := lags, k-(b.inputs-len(m.Inputs))
			if seen >= 0 {
				at += int(m.Inputs[seen]) * width
			}
			if seen >= 0 && m.Lags != nil {
				at -= int(m.Lags[seen])
			}
			b.taps[k*canon.BlockMembers+lane] = int32(4 * at)
		}
	}
	others := len(members[0].Recurrent) / canon.MixedUnits // other units that a unit sees
	b.weights = kernel.Aligned(canon.MixedUnits * canon.BlockMembers * (1 + b.inputs + others))[:0]
	for half := 0; half < canon.MixedUnits; half += canon.GroupUnits {
		put := func(weight func(m *reservoir.Member, unit int) float32) {
			for unit := half; unit < half+canon.GroupUnits; unit++ {
				for lane := range members {
					b.weights = append(b.weights, weight(&members[lane], unit))
				}
			}
		}
		put(func(m *reservoir.Member, unit int) float32 { return m.Bias[unit] })
		for k := range b.inputs {
			put(func(m *reservoir.Member, unit int) float32 {
				if seen := k - (b.inputs - len(m.Inputs)); seen >= 0 {
					return m.Input[unit*len(m.Inputs)+seen]
				}
				return 0
			})
		}
		if members[0].Lags != nil {
			put(func(m *reservoir.Member, unit int) float32 { return m.Recurrent[unit] })
			continue
		}
		for k := range canon.MixedUnits {
			put(func(m *reservoir.Member, unit int) float32 { return m.Recurrent[unit*canon.MixedUnits+k] })
		}
	}
}

// writeFeatures is Layout.FeaturesOf by vector kernels.
func (v *mixedVector) writeFeatures(state []uint32, dst []float32) {
	steps := v.layout.Steps(state)
	if steps == 0 {
		clear(dst[:v.features])
		return
	}
	count := float32(int64(engine.Counted(steps)))
	for i := range v.blocks {
		v.kernels.Features(&dst[i*engine.BlockUnits*len(reservoir.MixedFeatures)], &state[v.blocks[i].words], count)
	}
}
