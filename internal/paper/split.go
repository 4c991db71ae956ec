package paper

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/mathext/prng"
)

// splitSeed and validationShare are the values of the published experiments.
const (
	splitSeed       = 42
	validationShare = 0.33
)

// stratify divides samples with the given class names at random so that both parts have
// each class in the proportion of the whole, exactly as scikit-learn's
// train_test_split(X, y, test_size=held/len, stratify=y, random_state=seed) does: held
// indices come second, both parts in its order.
//
// scikit-learn numbers classes in the order of their labels, and the published
// experiments passed text: "10" comes before "2".
func stratify(labels []string, held int, seed uint32) (kept, heldOut []int, err error) {
	names := slices.Compact(slices.Sorted(slices.Values(labels)))
	members := make([][]int, len(names))
	for i, l := range labels {
		k, _ := slices.BinarySearch(names, l)
		members[k] = append(members[k], i)
	}
	counts := make([]int, len(names))
	for k, m := range members {
		counts[k] = len(m)
		if len(m) < 2 {
			return nil, nil, fmt.Errorf("class %q has one training series, a stratified split requires at least 2 of each", names[k])
		}
	}
	rest := len(labels) - held
	if rest < len(names) || held < len(names) {
		return nil, nil, fmt.Errorf("a split of %d series into %d and %d cannot hold all %d classes in both parts", len(labels), rest, held, len(names))
	}

	rng := newRandomState(seed)
	first := apportion(counts, rest, rng)
	left := slices.Clone(counts)
	for k := range left {
		left[k] -= first[k]
	}
	second := apportion(left, held, rng)
	for k, m := range members {
		order := rng.permutation(len(m))
		for n, i := range order[:first[k]+second[k]] {
			if n < first[k] {
				kept = append(kept, m[i])
			} else {
				heldOut = append(heldOut, m[i])
			}
		}
	}
	rng.shuffle(kept)
	rng.shuffle(heldOut)
	return kept, heldOut, nil
}

// heldOutCount returns the number of n samples in the validation part.
func heldOutCount(n int) int { return int(math.Ceil(validationShare * float64(n))) }

// apportion gives draws to classes in proportion to counts: each class its share rounded
// down, the rest singly by largest remainder, ties drawn.
func apportion(counts []int, draws int, rng *randomState) []int {
	total := 0
	for _, c := range counts {
		total += c
	}
	given := make([]int, len(counts))
	remainder := make([]float64, len(counts))
	missing := draws
	for k, c := range counts {
		share := float64(float64(c) / float64(total) * float64(draws)) // rounded as NumPy rounds
		given[k] = int(math.Floor(share))
		remainder[k] = share - float64(given[k])
		missing -= given[k]
	}
	levels := slices.Clone(remainder)
	slices.SortFunc(levels, func(a, b float64) int { return cmp.Compare(b, a) })
	for _, level := range slices.Compact(levels) {
		if missing <= 0 {
			break
		}
		var tied []int
		for k, r := range remainder {
			if r == level {
				tied = append(tied, k)
			}
		}
		n := min(len(tied), missing)
		for _, i := range rng.permutation(len(tied))[:n] {
			given[tied[i]]++
		}
		missing -= n
	}
	return given
}

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
