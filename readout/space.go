package readout

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// noise is the share of a feature's mean below which its deviation is taken
// for float32 rounding (a few units in the last place, 2^-24 relative each):
// a constant feature, which standardising would blow up to noise of size 1.
const noise = 0x1p-22

// space maps a raw feature to what the solver sees: (x - mean) * scale. A
// scale of zero takes the feature out.
type space struct {
	mean, scale []float64
}

// newSpace takes ownership of mean. variance is only read if standardise.
func newSpace(mean, variance []float64, standardise bool) space {
	s := space{mean: mean, scale: make([]float64, len(mean))}
	for j := range s.scale {
		if !standardise {
			s.scale[j] = 1
		} else if dev := math.Sqrt(variance[j]); dev > noise*math.Abs(mean[j]) && dev > math.SmallestNonzeroFloat32 {
			s.scale[j] = 1 / dev
		}
	}
	return s
}

// constants counts the features taken out.
func (s space) constants() int {
	n := 0
	for _, v := range s.scale {
		if v == 0 {
			n++
		}
	}
	return n
}

// table is the samples: n rows of len(mean) float32 features.
type table struct {
	space
	x []float32
	n int
}

// newTable centres in two passes over the samples, so that a large mean costs
// no digits.
func newTable(x []float32, n int, standardise bool) table {
	f := len(x) / n
	mean, variance := make([]float64, f), make([]float64, f)
	dense.Parallel(f, 256, func(lo, hi int) {
		for i := range n {
			for j := lo; j < hi; j++ {
				mean[j] += float64(x[i*f+j])
			}
		}
		for j := lo; j < hi; j++ {
			mean[j] /= float64(n)
		}
		for i := range n {
			for j := lo; j < hi; j++ {
				d := float64(x[i*f+j]) - mean[j]
				variance[j] += d * d
			}
		}
		for j := lo; j < hi; j++ {
			variance[j] /= float64(n)
		}
	})
	return table{newSpace(mean, variance, standardise), x, n}
}

// samples is the table as the solver sees it.
func (t table) samples() dense.Samples {
	f := len(t.mean)
	return dense.Samples{Rows: t.n, Cols: f, X: t.x, Stride: f, Center: t.mean, Scale: t.scale}
}
