package paper

import (
	"math/bits"

	"gonum.org/v1/gonum/mathext/prng"
)

// randomState is NumPy's legacy generator numpy.random.RandomState(seed): MT19937, and
// NumPy's integer draws from its words. NumPy guarantees that this stream never changes.
type randomState struct{ words *prng.MT19937 }

func newRandomState(seed uint32) *randomState {
	s := &randomState{words: prng.NewMT19937()}
	s.words.Seed(uint64(seed))
	return s
}

// upTo is uniform in 0..most: it draws as many bits as most has, until they are in range.
func (s *randomState) upTo(most int) int {
	if most == 0 {
		return 0
	}
	mask := uint32(1)<<bits.Len32(uint32(most)) - 1
	for {
		if v := s.words.Uint32() & mask; v <= uint32(most) {
			return int(v)
		}
	}
}

// randint is uniform in lo..hi-1, as RandomState.randint(lo, hi).
func (s *randomState) randint(lo, hi int) int { return lo + s.upTo(hi-1-lo) }

// shuffle is RandomState.shuffle.
func (s *randomState) shuffle(v []int) {
	for i := len(v) - 1; i > 0; i-- {
		j := s.upTo(i)
		v[i], v[j] = v[j], v[i]
	}
}

// permutation is RandomState.permutation(n).
func (s *randomState) permutation(n int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = i
	}
	s.shuffle(v)
	return v
}
