package fit

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// measures are the means and the variances of features over a sequence of samples. Each sample
// is added separately, in order, so the bits depend only on the samples: not on the block size
// or threads.
type measures struct {
	n       int
	weights []float64 // of the classes; nil: all 1
	total   float64   // of the samples' weights
	mean    []float64
	square  []float64 // the sum of squared differences from the mean, times weights
}

func newMeasures(features int) *measures {
	return &measures{mean: make([]float64, features), square: make([]float64, features)}
}

// add takes whole samples, row-major. Welford, "Note on a method for calculating corrected
// sums of squares and products", 1962: no digit is lost if a mean is large compared with the
// deviation. With weights: West, "Updating mean and variance estimates: an improved method",
// 1979.
func (m *measures) add(features []float32, labels []int) {
	f := len(m.mean)
	before := m.total
	for _, l := range labels {
		m.total += weightAt(m.weights, l)
	}
	dense.Parallel(f, 256, func(lo, hi int) {
		mean, square := m.mean[lo:hi], m.square[lo:hi]
		sum := before
		for i, l := range labels {
			w := weightAt(m.weights, l)
			sum += w
			for j, v := range features[i*f+lo : i*f+hi] {
				x := float64(v)
				d := x - mean[j]
				at := mean[j] + d*w/sum
				mean[j] = at
				square[j] += float64(w * float64(d*(x-at)))
			}
		}
	})
	m.n += len(labels)
}

// space returns the space of the unclipped samples, with the clip.
func (m *measures) space(o scaling) space {
	variance := slices.Clone(m.square)
	for j := range variance {
		variance[j] /= m.total
	}
	s := newSpace(slices.Clone(m.mean), variance, o)
	s.clip = clipOf(s, o.clip())
	return s
}

// same reports whether two measures have the same bits.
func (m *measures) same(other *measures) bool {
	equal := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
	return m.n == other.n && slices.EqualFunc(m.mean, other.mean, equal) && slices.EqualFunc(m.square, other.square, equal)
}
