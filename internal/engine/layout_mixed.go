package engine

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// MixedLayout gives the parts of a state of kind mixed that Layout does not name:
// docs/mixed-bank.md, "The state". After Previous come the ring of past inputs, the
// signs of all blocks of 8 members (4 words a block: a byte a unit, a bit a member)
// and the blocks.
//
// A block has its words by kind, then unit, then member: 128 words each of h, sum,
// square and max; 64 words each of the four counts, two to a word, the even member
// in the low half.
//
// Layout's own offsets, except Previous and First, are -1 for kind mixed.
type MixedLayout struct {
	Ring   int // of past inputs: Lags consecutive words for each input
	Lags   int // the largest lag
	Inputs int // in the ring
	Signs  int // 4 words a block
	blocks int
}

// Words within a block.
const (
	BlockUnits  = canon.MixedUnits * canon.BlockMembers
	BlockState  = 0
	BlockSum    = BlockState + BlockUnits
	BlockSquare = BlockSum + BlockUnits
	BlockMax    = BlockSquare + BlockUnits
	BlockCounts = BlockMax + BlockUnits // ppv, sc, win, lose
	countWords  = BlockUnits / 2
	BlockWords  = BlockCounts + 4*countWords
	SignWords   = BlockUnits / 32
)

// The counts of kind mixed, in the order of the state.
const (
	CountPositive = iota
	CountChanges
	CountWin
	CountLose
	CountKinds
)

// ThinAt is the number of samples after which only every second sample enters
// the sums and counts, which are halved then, and so on at every doubling:
// counts fit 16 bits, and float32 sums stay accurate, for any length.
const ThinAt = 1 << 15

// Stride returns the distance between counted samples near sample number t,
// from 1.
func Stride(t uint64) uint64 {
	s := uint64(1)
	for t > ThinAt*s {
		s *= 2
	}
	return s
}

// Counted returns the number of samples, of the first steps, in the sums and counts.
func Counted(steps uint64) uint64 { return steps / Stride(steps+1) }

// lowest begins max: no argument is below lowest.
const lowest = -math.MaxFloat32

func layoutOfMixed(s reservoir.Spec) Layout {
	m := &MixedLayout{Lags: s.Taps.MaxLag, Inputs: s.Inputs(), blocks: s.Members / canon.BlockMembers}
	l := Layout{Words: 2, Previous: -1, State: -1, SumLow: -1, SumHigh: -1, Positive: -1, Max: -1, SquareLow: -1, SquareHigh: -1, Mixed: m}
	if s.Difference {
		l.Previous = l.Words
		l.Words += s.Channels
	}
	m.Ring = l.Words
	l.Words += m.Inputs * m.Lags
	m.Signs = l.Words
	l.Words += m.blocks * SignWords
	l.First = l.Words
	l.Words += m.blocks * BlockWords
	return l
}

// reset starts a new sequence.
func (m *MixedLayout) reset(l *Layout, state []uint32) {
	clear(state[:m.Signs])
	m.ResetBlocks(l, state, 0, m.blocks)
}

// ResetBlocks resets only some blocks.
func (m *MixedLayout) ResetBlocks(l *Layout, state []uint32, first, end int) {
	clear(state[m.Signs+first*SignWords : m.Signs+end*SignWords])
	for b := first; b < end; b++ {
		block := state[l.First+b*BlockWords:][:BlockWords]
		clear(block)
		max := block[BlockMax:][:BlockUnits]
		for i := range max {
			max[i] = math.Float32bits(lowest)
		}
	}
}

// At returns the place of unit i of member r among the BlockUnits of its block,
// and the block's first word.
func (m *MixedLayout) At(l *Layout, r, i int) (place, block int) {
	return i*canon.BlockMembers + r%canon.BlockMembers, l.First + r/canon.BlockMembers*BlockWords
}

// Sign returns the word with the sign of a unit of member r, and its bit.
func (m *MixedLayout) Sign(state []uint32, r, place int) (word *uint32, bit uint32) {
	return &state[m.Signs+r/canon.BlockMembers*SignWords+place/32], 1 << (place % 32)
}

// ReadCount reads one of the four counts of a block.
func ReadCount(block []uint32, kind, place int) uint32 {
	return block[BlockCounts+kind*countWords+place/2] >> (place % 2 * 16) & 0xffff
}

// WriteCount writes one of the four counts of a block.
func WriteCount(block []uint32, kind, place int, n uint32) {
	w, shift := &block[BlockCounts+kind*countWords+place/2], place%2*16
	*w = *w&^(0xffff<<shift) | n<<shift
}

// checkState is CheckState.
func (m *MixedLayout) checkState(l *Layout, state []uint32) error {
	most := uint32(Counted(l.Steps(state)))
	for w := 2; w < l.Words; w++ {
		in := (w - l.First) % BlockWords
		switch {
		case w >= m.Signs && w < l.First:
		case w >= l.First && in >= BlockCounts:
			if state[w]&0xffff > most || state[w]>>16 > most {
				return fmt.Errorf("reservoir: state, word %d: counts of %d and %d samples, want at most %d", w, state[w]&0xffff, state[w]>>16, most)
			}
		case state[w]&0x7f800000 == 0x7f800000:
			return fmt.Errorf("reservoir: state, word %d is %v, want a finite number", w, math.Float32frombits(state[w]))
		}
	}
	return nil
}

// features writes the feature vector; see docs/mixed-bank.md, "Features".
func (m *MixedLayout) features(l *Layout, s *reservoir.Spec, state []uint32, dst []float32) {
	n, add := float32(int64(Counted(l.Steps(state)))), ActivationOf(s.Taps.Activation)
	for r := range s.Members {
		dst := dst[r*canon.MixedUnits*len(reservoir.MixedFeatures):]
		for i := range canon.MixedUnits {
			place, at := m.At(l, r, i)
			block := state[at : at+BlockWords]
			value := func(part int) float32 { return math.Float32frombits(block[part+place]) }
			share := func(kind int) float32 { return float32(int64(ReadCount(block, kind, place))) / n }
			mean := value(BlockSum) / n
			for k, v := range [...]float32{
				value(BlockState), mean, share(CountPositive), add(0, value(BlockMax)), deviation(mean, value(BlockSquare)/n),
				share(CountChanges), share(CountWin), share(CountLose),
			} {
				dst[k*canon.MixedUnits+i] = v
			}
		}
	}
}

// ActivationOf returns h plus the activation of z, in float32.
func ActivationOf(a reservoir.Activation) func(h, z float32) float32 {
	switch a {
	case reservoir.Cubic:
		return canon.AddCubic
	case reservoir.Clip:
		return canon.AddClip
	}
	return canon.AddTanh
}
