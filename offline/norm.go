package offline

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// rounding is the share of a channel's magnitude below which a deviation is
// taken for float32 rounding: four units in the last place.
const rounding = 0x1p-22

// spread accumulates the mean and the deviation of numbers, about the first of
// them so that a large mean costs no digits. The same numbers in the same order
// give the same bits on every platform.
type spread struct {
	n                  int
	first, sum, square float64
}

func (s *spread) add(x float64) {
	if s.n == 0 {
		s.first = x
	}
	s.n++
	d := x - s.first
	s.sum += d
	s.square += float64(d * d) // converted, so that no platform fuses it: states depend on these bits
}

func (s *spread) mean() float64 {
	if s.n == 0 {
		return 0
	}
	return s.first + s.sum/float64(s.n)
}

func (s *spread) deviation() float64 {
	if s.n == 0 {
		return 0
	}
	m := s.sum / float64(s.n)
	return math.Sqrt(max(0, s.square/float64(s.n)-float64(m*m)))
}

// inverse is 1/deviation, or 0 where that is no more than rounding of numbers
// of the given size: an input that never varied in training has taught the
// readout nothing and is left out.
func (s *spread) inverse(size float64) float32 {
	dev := s.deviation()
	if dev <= rounding*size || dev < 1/reservoir.MaxScale {
		return 0
	}
	return float32(1 / dev)
}

// moments accumulate what a model knows of its training data: the input
// transform's constants and each channel's range.
type moments struct {
	value   []channelRange
	diff    []spread
	streams map[int]*streamEnd // of the streams that go on
}

// streamEnd is how a stream has come to where it is.
type streamEnd struct {
	before []float32 // its last sample, where that has a label
	run    []int     // samples that each channel has had its last value
}

func newMoments(channels int) *moments {
	return &moments{make([]channelRange, channels), make([]spread, channels), map[int]*streamEnd{}}
}

// add takes the labelled samples of a chunk. Missing values are passed over.
func (m *moments) add(p *chunk) {
	c := len(m.value)
	s := m.streams[p.stream]
	if s == nil {
		s = &streamEnd{run: make([]int, c)}
		m.streams[p.stream] = s
	}
	before := s.before
	for r, label := range p.labels {
		if label < 0 {
			before = nil
			clear(s.run)
			continue
		}
		sample := p.values[r*c : (r+1)*c]
		for k, x := range sample {
			if x != x {
				s.run[k] = 0
				continue
			}
			if before == nil || before[k] != x {
				s.run[k] = 0
			}
			s.run[k]++
			m.value[k].add(x, s.run[k])
			if before != nil && before[k] == before[k] {
				m.diff[k].add(float64(x) - float64(before[k]))
			}
		}
		before = sample
	}
	if p.last {
		delete(m.streams, p.stream)
	} else {
		s.before = slices.Clone(before)
	}
}

// norm is the input transform: each channel's mean and deviation over all
// samples, and the deviation of its differences between neighbouring samples.
func (m *moments) norm() reservoir.Norm {
	c := len(m.value)
	n := reservoir.Norm{Mean: make([]float32, c), Scale: make([]float32, c), Diff: make([]float32, c)}
	for k := range c {
		value, diff := &m.value[k], &m.diff[k]
		size := math.Abs(value.mean()) + value.deviation()
		n.Mean[k] = float32(value.mean())
		n.Scale[k] = value.inverse(size)
		n.Diff[k] = diff.inverse(size)
	}
	return n
}
