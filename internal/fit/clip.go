package fit

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// clip centers and limits features, in the readout's own numbers: a solver learns from the
// bits that readout.Linear multiplies by its weights.
type clip struct {
	center, limit []float32
}

// clipOf returns the clip of a space with final scales.
func clipOf(s space, at float64) *clip {
	c := &clip{make([]float32, len(s.mean)), make([]float32, len(s.mean))}
	for j, m := range s.mean {
		c.center[j], c.limit[j] = float32(m), math.MaxFloat32 // a removed feature needs no limit
		if s.scale[j] > 0 {
			c.limit[j] = float32(max(math.SmallestNonzeroFloat32, min(math.MaxFloat32, at/s.scale[j])))
		}
	}
	return c
}

// samples limits whole samples, row-major; dst and src may be the same.
func (c *clip) samples(dst, src []float32) {
	f := len(c.center)
	dense.Parallel(len(src)/f, 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c.apply(dst[i*f:(i+1)*f], src[i*f:(i+1)*f], 0)
		}
	})
}

// apply limits the features from j0 on of one sample; dst and src may be the same.
func (c *clip) apply(dst, src []float32, j0 int) {
	center, limit := c.center[j0:][:len(src)], c.limit[j0:][:len(src)]
	for j, f := range src {
		dst[j] = canon.Limit(f-center[j], limit[j])
	}
}
