package reservoir

import (
	"fmt"
	"math"
)

// mixedLayout is Layout for kind mixed: docs/mixed-bank.md, "The state". Behind
// Previous are the ring of past inputs, the signs of all blocks of 8 members (4
// words a block: a byte a unit, a bit a member) and the blocks.
//
// A block has its words by kind, then unit, then member: 128 words each of h,
// sum, square and max; 64 words each of the four counts, two to a word, the even
// member in the low half.
//
// Layout's own offsets, of which kind mixed has none but Previous and First, are
// -1.
type mixedLayout struct {
	ring, lags, inputs int // ring: inputs x lags words
	signs              int // signWords a block
	blocks             int
}

// Words within a block.
const (
	blockUnits  = mixedUnits * laneCount
	blockState  = 0
	blockSum    = blockState + blockUnits
	blockSquare = blockSum + blockUnits
	blockMax    = blockSquare + blockUnits
	blockCounts = blockMax + blockUnits // ppv, sc, win, lose
	countWords  = blockUnits / 2
	blockWords  = blockCounts + 4*countWords
	signWords   = blockUnits / 32
)

// The counts of kind mixed, in the order of the state.
const (
	countPositive = iota
	countChanges
	countWin
	countLose
	countKinds
)

// thinAt is the number of samples after which only every second enters the sums
// and counts, which are halved then, and so on at every doubling: counts fit 16
// bits, and float32 sums stay good, whatever the length.
const thinAt = 1 << 15

// stride says of sample number t, from 1, and of those near it: every how many
// samples one is counted.
func stride(t uint64) uint64 {
	s := uint64(1)
	for t > thinAt*s {
		s *= 2
	}
	return s
}

// counted is how many samples of the first steps the sums and counts stand for.
func counted(steps uint64) uint64 { return steps / stride(steps+1) }

// lowest begins max: no argument is below it.
const lowest = -math.MaxFloat32

func (s Spec) mixedLayout() Layout {
	m := &mixedLayout{lags: s.Taps.MaxLag, inputs: s.Inputs(), blocks: s.Members / laneCount}
	l := Layout{Words: 2, Previous: -1, State: -1, SumLow: -1, SumHigh: -1, Positive: -1, Max: -1, SquareLow: -1, SquareHigh: -1, mixed: m}
	if s.Difference {
		l.Previous = l.Words
		l.Words += s.Channels
	}
	m.ring = l.Words
	l.Words += m.inputs * m.lags
	m.signs = l.Words
	l.Words += m.blocks * signWords
	l.First = l.Words
	l.Words += m.blocks * blockWords
	return l
}

// MixedLayout says where the parts of a state of kind mixed are that Layout does
// not name, in words. The blocks are at Layout.First.
type MixedLayout struct {
	Ring  int // of past inputs: each input's, one after the other, as many words as the largest lag
	Signs int // 4 words a block of 8 members
}

// Mixed is the layout of kind mixed; zero for the other kinds.
func (l Layout) Mixed() MixedLayout {
	if l.mixed == nil {
		return MixedLayout{}
	}
	return MixedLayout{l.mixed.ring, l.mixed.signs}
}

// reset starts a new sequence.
func (m *mixedLayout) reset(l *Layout, state []uint32) {
	clear(state[:m.signs])
	m.resetBlocks(l, state, 0, m.blocks)
}

// resetBlocks does that of some blocks alone.
func (m *mixedLayout) resetBlocks(l *Layout, state []uint32, first, end int) {
	clear(state[m.signs+first*signWords : m.signs+end*signWords])
	for b := first; b < end; b++ {
		block := state[l.First+b*blockWords:][:blockWords]
		clear(block)
		max := block[blockMax:][:blockUnits]
		for i := range max {
			max[i] = math.Float32bits(lowest)
		}
	}
}

// at is the place of unit i of member r among the blockUnits of its block, and
// the block's first word.
func (m *mixedLayout) at(l *Layout, r, i int) (place, block int) {
	return i*laneCount + r%laneCount, l.First + r/laneCount*blockWords
}

// sign is the word with the sign of a unit of member r, and its bit.
func (m *mixedLayout) sign(state []uint32, r, place int) (word *uint32, bit uint32) {
	return &state[m.signs+r/laneCount*signWords+place/32], 1 << (place % 32)
}

// count reads one of the four counts of a block.
func count(block []uint32, kind, place int) uint32 {
	return block[blockCounts+kind*countWords+place/2] >> (place % 2 * 16) & 0xffff
}

// setCount writes it.
func setCount(block []uint32, kind, place int, n uint32) {
	w, shift := &block[blockCounts+kind*countWords+place/2], place%2*16
	*w = *w&^(0xffff<<shift) | n<<shift
}

// check is CheckState.
func (m *mixedLayout) check(l *Layout, state []uint32) error {
	most := uint32(counted(l.Steps(state)))
	for w := 2; w < l.Words; w++ {
		in := (w - l.First) % blockWords
		switch {
		case w >= m.signs && w < l.First:
		case w >= l.First && in >= blockCounts:
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
func (m *mixedLayout) features(l *Layout, s *Spec, state []uint32, dst []float32) {
	n, add := float32(int64(counted(l.Steps(state)))), s.Taps.Activation.add()
	for r := range s.Members {
		dst := dst[r*mixedUnits*len(MixedFeatures):]
		for i := range mixedUnits {
			place, at := m.at(l, r, i)
			block := state[at : at+blockWords]
			value := func(part int) float32 { return math.Float32frombits(block[part+place]) }
			share := func(kind int) float32 { return float32(int64(count(block, kind, place))) / n }
			mean := value(blockSum) / n
			for k, v := range [...]float32{
				value(blockState), mean, share(countPositive), add(0, value(blockMax)), deviation(mean, value(blockSquare)/n),
				share(countChanges), share(countWin), share(countLose),
			} {
				dst[k*mixedUnits+i] = v
			}
		}
	}
}
