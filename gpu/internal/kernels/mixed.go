package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Sizes fixed in the kernels of kind mixed; see mixed.h.
const (
	mixedUnits  = canon.MixedUnits
	mixedLanes  = canon.BlockMembers
	mixedPlaces = mixedUnits * mixedLanes // units of a block
	mixedHeld   = 4 * 2 * mixedPlaces
	// mixedWindow limits the shared memory of a warp's window, so that shared
	// memory and registers of a multiprocessor hold equally many warps.
	// mixedChunk is the maximum of samples in a window. For a large window a
	// chunk is smaller, down to mixedLeast as long as the memory allows, and then
	// to one sample.
	mixedWindow = 8 << 10
	mixedChunk  = 128
	mixedLeast  = 16
	// mixedWarps a multiprocessor share the runs of a launch: a few times as many
	// as it holds at once. Weights are read once for all runs of a warp.
	mixedWarps = 64
)

// mixedPlan is the part of a Program for networks of kind mixed.
type mixedPlan struct {
	args              Bank
	blocks, tapBlocks int
	taps, recurrent   warpFit // recurrent: unused without recurrent blocks
}

// warpFit is a kernel that processes a block by a warp.
type warpFit struct {
	kernel, shared int
	chunk          uint32
}

// mixed readies a network of kind mixed.
func (p *Program) mixed() error {
	s, h := &p.net.Spec, &p.shape
	state := engine.LayoutOf(*s).Mixed
	switch s.Taps.Activation {
	case reservoir.Cubic:
		h.Flags |= shapeCubic
	case reservoir.Clip:
		h.Flags |= shapeClip
	}
	p.bank = &mixedPlan{blocks: s.Members / mixedLanes, tapBlocks: s.Taps.Members / mixedLanes}
	p.bank.args = Bank{Ring: uint32(state.Ring), Lags: uint32(s.Taps.MaxLag), Signs: uint32(state.Signs)}
	if p.bank.blocks > maxTiles {
		return fmt.Errorf("kernels: %d members, want at most %d", s.Members, maxTiles*mixedLanes)
	}
	p.header()
	seen, err := p.packBlocks()
	if err != nil {
		return err
	}
	p.bank.taps.kernel, p.bank.recurrent.kernel = mixedTaps, mixedRecurrentAny
	cubic, clip := h.Flags&shapeCubic != 0, h.Flags&shapeClip != 0
	switch {
	case cubic && s.Taps.Count == 6:
		p.bank.taps.kernel = mixedTaps6
	case clip && s.Taps.Count == 3:
		p.bank.taps.kernel = mixedTaps3
	}
	if cubic {
		p.bank.recurrent.kernel = mixedRecurrent
	}
	if err := p.bank.taps.fit(0, seen[0], s.Taps.MaxLag, p.device); err != nil {
		return err
	}
	return p.bank.recurrent.fit(mixedHeld, seen[1], 0, p.device)
}

// fit finds the largest chunk whose window leaves room for other warps, or the least.
func (f *warpFit) fit(held, seen, lags int, d Device) error {
	for chunk := mixedChunk; chunk >= 1; chunk /= 2 {
		f.chunk, f.shared = uint32(chunk), held+4*seen*(lags+chunk)
		if f.shared <= mixedWindow || chunk <= mixedLeast && f.shared <= d.SharedPerBlock {
			return nil
		}
	}
	return fmt.Errorf("kernels: 8 members of the network see %d inputs, with lags of up to %d samples: they take %d bytes of shared memory, want at most %d; use the CPU", seen, lags, f.shared, d.SharedPerBlock)
}

// packBlocks writes the table of blocks and the data of its pointers. seen is
// the most inputs of a block of tap members, and of a block of recurrent
// members.
func (p *Program) packBlocks() (seen [2]int, err error) {
	p.bank.args.Blocks = uint32(len(p.image))
	const words = 6 // of an entry
	p.image = append(p.image, make([]uint32, words*p.bank.blocks)...)
	for b := range p.bank.blocks {
		members := p.net.Members[b*mixedLanes:][:mixedLanes]
		var inputs []int32
		var e block
		for _, m := range members {
			inputs = append(inputs, m.Inputs...)
			e.Columns = max(e.Columns, uint32(len(m.Inputs)))
		}
		slices.Sort(inputs)
		inputs = slices.Compact(inputs)
		if len(inputs) > math.MaxUint16 {
			return seen, fmt.Errorf("kernels: 8 members see %d inputs, want at most %d; use the CPU", len(inputs), math.MaxUint16)
		}
		kind := 0
		if b >= p.bank.tapBlocks {
			kind = 1
		}
		seen[kind] = max(seen[kind], len(inputs))
		e.Seen, e.SeenCount = uint32(len(p.image)), uint32(len(inputs))
		for _, i := range inputs {
			p.image = append(p.image, uint32(i))
		}
		e.Counts = uint32(len(p.image))
		for _, m := range members {
			p.image = append(p.image, uint32(len(m.Inputs)))
		}
		e.Sources = uint32(len(p.image))
		p.sources(members, inputs, int(e.Columns))
		for len(p.image)%4 != 0 { // weights are read by four
			p.image = append(p.image, 0)
		}
		e.Weights = uint32(len(p.image))
		p.blockWeights(members, int(e.Columns))
		if len(p.image) > maxImage {
			return seen, fmt.Errorf("kernels: the network's weights take more than %d words", maxImage)
		}
		copy(p.image[int(p.bank.args.Blocks)+words*b:], []uint32{e.Seen, e.SeenCount, e.Counts, e.Sources, e.Weights, e.Columns})
	}
	return seen, nil
}

// sources writes the window positions of each source's values, by source, then
// member.
func (p *Program) sources(members []reservoir.Member, inputs []int32, columns int) {
	for k := range columns {
		for _, m := range members {
			word := uint32(0)
			if k < len(m.Inputs) {
				at, _ := slices.BinarySearch(inputs, m.Inputs[k])
				word = uint32(at)
				if m.Lags != nil {
					word |= uint32(m.Lags[k]) << 16
				}
			}
			p.image = append(p.image, word)
		}
	}
}

// blockWeights writes the rows of a block's weights: of each the four units of
// each lane.
func (p *Program) blockWeights(members []reservoir.Member, columns int) {
	row := func(value func(m *reservoir.Member, unit int) float32) {
		for lane := range 32 {
			for j := range 4 {
				p.image = append(p.image, math.Float32bits(value(&members[lane%mixedLanes], lane/mixedLanes*4+j)))
			}
		}
	}
	row(func(m *reservoir.Member, i int) float32 { return m.Bias[i] })
	for k := range columns {
		row(func(m *reservoir.Member, i int) float32 {
			if k >= len(m.Inputs) {
				return 0 // not read
			}
			return m.Input[i*len(m.Inputs)+k]
		})
	}
	if members[0].Lags != nil {
		row(func(m *reservoir.Member, i int) float32 { return m.Recurrent[i] })
		return
	}
	for k := range mixedUnits {
		row(func(m *reservoir.Member, i int) float32 { return m.Recurrent[i*mixedUnits+k] })
	}
}

// mixedRound returns the launches of a round before its scores: tap members,
// then recurrent members, then the parts outside blocks.
func (p *Program) mixedRound(dst []Launch, args Args) []Launch {
	b := p.bank
	for _, part := range []struct {
		fit           *warpFit
		first, blocks int
	}{{&b.taps, 0, b.tapBlocks}, {&b.recurrent, b.tapBlocks, b.blocks - b.tapBlocks}} {
		if part.blocks == 0 {
			continue
		}
		warps := min(int(args.RunCount), blocks(mixedWarps*p.device.Multiprocessors, part.blocks))
		args.Step, args.Chunk = uint32(part.first), part.fit.chunk
		dst = append(dst, Launch{part.fit.kernel, [3]uint32{uint32(warps), uint32(part.blocks), 1}, mixedThreads, uint32(part.fit.shared), args})
	}
	args.Step = 1
	return append(dst, Launch{mixedFinish, [3]uint32{args.RunCount, 1, 1}, finishThreads, 0, args})
}
