package reservoir

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// Novelty computes the scores of a detector from the states of an engine, several at
// a time on this machine's vectors: the bits of novelty.Detector.Score. It belongs to one
// goroutine, and allocates nothing once it is made.
type Novelty struct {
	detector *novelty.Detector
	set      *kernel.Set // nil: plain Go
	axes     []float32   // of the detector, as packColumns has them
	zeros    []float32   // what the kernels subtract
	rows     []float32   // features of kernel.Streams sequences
	dst      []float32   // a vector for each of them
	within   []float32   // of each of them, its products with the directions
	lengths  [kernel.Streams]float64
}

// NewNovelty makes one. The detector must be valid.
func NewNovelty(d *novelty.Detector) *Novelty { return newNovelty(d, fastest()) }

func newNovelty(d *novelty.Detector, set *kernel.Set) *Novelty {
	n := &Novelty{detector: d, set: set, rows: make([]float32, d.Features())}
	if set == nil {
		return n
	}
	dims := d.Dimensions()
	n.axes = packColumns(d.Axes, make([]float32, dims), d.Features(), set.Vector)
	n.zeros = make([]float32, d.Features())
	n.rows = make([]float32, kernel.Streams*d.Features())
	n.dst = kernel.Aligned(kernel.Streams * set.Vector)
	n.within = make([]float32, kernel.Streams*dims)
	return n
}

// Score writes how unlike the training part the sequences in some slots are to dst, a
// score each.
func (n *Novelty) Score(dst []float32, e Engine, slots []int32) error {
	f := n.detector.Features()
	most := len(n.rows) / f
	for len(slots) > 0 {
		some := min(len(slots), most)
		for i, slot := range slots[:some] {
			if err := e.Features(slot, n.rows[i*f:(i+1)*f]); err != nil {
				return fmt.Errorf("reservoir: engine %s: features: %w", e.Name(), err)
			}
		}
		n.score(dst[:some])
		dst, slots = dst[some:], slots[some:]
	}
	return nil
}

// score is about the first rows.
func (n *Novelty) score(dst []float32) {
	d := n.detector
	if n.set == nil {
		dst[0] = d.Score(n.rows)
		return
	}
	f, dims, vector, scores := d.Features(), d.Dimensions(), n.set.Vector, n.set.ScoresOfMany
	if len(dst) == 1 {
		scores = n.set.Scores
	}
	for i := range dst {
		n.lengths[i] = d.Scaled(n.rows[i*f : (i+1)*f])
	}
	for axis := 0; axis < dims; axis += vector {
		block := n.axes[axis*(1+f):]
		scores(&n.dst[0], &block[vector], &block[0], &n.zeros[0], &n.rows[0], 4*f, f)
		for i := range dst {
			copy(n.within[i*dims+axis:(i+1)*dims], n.dst[i*vector:(i+1)*vector])
		}
	}
	for i := range dst {
		dst[i] = d.Of(n.lengths[i], n.within[i*dims:(i+1)*dims])
	}
}
