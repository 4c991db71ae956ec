package bench

// randomState is NumPy's legacy generator numpy.random.RandomState(seed): the
// Mersenne Twister MT19937 of Matsumoto and Nishimura (1998), and the integer
// draws NumPy makes of it. NumPy promises that this stream never changes.
type randomState struct {
	key [624]uint32
	pos int
}

func newRandomState(seed uint32) *randomState {
	s := &randomState{pos: 624}
	s.key[0] = seed
	for i := 1; i < len(s.key); i++ {
		p := s.key[i-1]
		s.key[i] = 1812433253*(p^p>>30) + uint32(i)
	}
	return s
}

// bits returns the next 32 bits.
func (s *randomState) bits() uint32 {
	if s.pos == len(s.key) {
		s.refill()
	}
	y := s.key[s.pos]
	s.pos++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (s *randomState) refill() {
	const n, m = 624, 397
	for i := range n {
		y := s.key[i]&0x80000000 | s.key[(i+1)%n]&0x7fffffff
		v := s.key[(i+m)%n] ^ y>>1
		if y&1 == 1 {
			v ^= 0x9908b0df
		}
		s.key[i] = v
	}
	s.pos = 0
}

// upTo is uniform in 0..most: as many bits as most has, until they are in range.
func (s *randomState) upTo(most int) int {
	mask := uint32(most)
	for shift := 1; shift < 32; shift *= 2 {
		mask |= mask >> shift
	}
	if most == 0 {
		return 0
	}
	for {
		if v := s.bits() & mask; v <= uint32(most) {
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
