package offline

import (
	"math"

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

// newNorm computes the input transform's constants from the listed series:
// each channel's mean and deviation over all their samples, and the deviation
// of its differences between neighbouring samples. Missing values are passed
// over.
func newNorm(d *Dataset, series []int) reservoir.Norm {
	c := len(d.Channels)
	value, diff := make([]spread, c), make([]spread, c)
	for _, i := range series {
		v := d.Series[i].Values
		for k, x := range v {
			if x != x {
				continue
			}
			value[k%c].add(float64(x))
			if k >= c && v[k-c] == v[k-c] {
				diff[k%c].add(float64(x) - float64(v[k-c]))
			}
		}
	}
	n := reservoir.Norm{Mean: make([]float32, c), Scale: make([]float32, c), Diff: make([]float32, c)}
	for k := range c {
		size := math.Abs(value[k].mean()) + value[k].deviation()
		n.Mean[k] = float32(value[k].mean())
		n.Scale[k] = value[k].inverse(size)
		n.Diff[k] = diff[k].inverse(size)
	}
	return n
}

// fill appends values to dst with every missing value replaced by the one
// before it in its channel, the first of a series by mean, which standardises
// to 0. It also counts the missing ones.
func fill(dst, values, mean []float32) (filled []float32, missing int) {
	c, start := len(mean), len(dst)
	for k, x := range values {
		if x != x {
			missing++
			if k < c {
				x = mean[k]
			} else {
				x = dst[start+k-c]
			}
		}
		dst = append(dst, x)
	}
	return dst, missing
}
