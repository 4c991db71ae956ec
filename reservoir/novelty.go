package reservoir

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// Novelty computes the scores of a detector from the states of an engine, several at
// a time on this machine's vectors: the bits of novelty.Detector.Score. It belongs to one
// goroutine, and allocates nothing once it is made.
type Novelty struct {
	detector *novelty.Detector
	set      *kernel.Set // nil: plain Go
	rows     []float32   // features of kernel.Streams sequences, or of one in plain Go
	stride   int         // from a sequence's to the next: whole vectors, zeros behind the features
	center   []float32   // of the detector, as many
	scale    []float32
	axes     []float32 // of the detector, and behind them what reads inputs, as packColumns has them, without intercepts
	products []float32 // with them: by Axes of the kernels, then by sequence
	within   []float32 // the same of one sequence
	sums     [kernel.Streams][4]float64
}

// noveltyBlock is how many features of all sequences are taken at once: few enough that
// they are in the level 1 cache when they are multiplied. It is a number of whole vectors.
const noveltyBlock = 512

// NewNovelty makes one. The detector must be valid.
func NewNovelty(d *novelty.Detector) *Novelty { return newNovelty(d, fastest()) }

func newNovelty(d *novelty.Detector, set *kernel.Set) *Novelty {
	f, dims := d.Features(), d.Dimensions()+d.InputValues()
	n := &Novelty{detector: d, set: set, stride: f}
	if set == nil {
		n.rows = make([]float32, f)
		return n
	}
	n.stride = (f + set.Vector - 1) / set.Vector * set.Vector
	n.rows = kernel.Aligned(kernel.Streams * n.stride)
	n.center, n.scale = kernel.Aligned(n.stride), kernel.Aligned(n.stride)
	copy(n.center, d.Center)
	copy(n.scale, d.Scale)
	once := set.Features.Novelty.Axes
	n.axes = kernel.Aligned((dims + once - 1) / once * once * f)
	all := slices.Concat(d.Axes, d.Inputs)
	for axis := range dims {
		for j, w := range all[axis*f : (axis+1)*f] {
			n.axes[(axis/once*f+j)*once+axis%once] = w
		}
	}
	n.products = kernel.Aligned(kernel.Streams * len(n.axes) / f)
	n.within = make([]float32, len(n.axes)/f)
	return n
}

// Inputs is how many values of its inputs there are of each sequence; 0: none.
func (n *Novelty) Inputs() int { return n.detector.InputValues() }

// Score writes how unlike the training part the sequences in some slots are to dst, a
// score each, and to inputs, where that is not nil, what their inputs are like, Inputs of
// each.
func (n *Novelty) Score(dst, inputs []float32, e Engine, slots []int32) error {
	f := n.detector.Features()
	most := len(n.rows) / n.stride
	for len(slots) > 0 {
		some := min(len(slots), most)
		for i, slot := range slots[:some] {
			if err := e.Features(slot, n.rows[i*n.stride:][:f]); err != nil {
				return fmt.Errorf("reservoir: engine %s: features: %w", e.Name(), err)
			}
		}
		n.score(dst[:some], inputs)
		if inputs != nil {
			inputs = inputs[some*n.Inputs():]
		}
		dst, slots = dst[some:], slots[some:]
	}
	return nil
}

// score is about the first rows.
func (n *Novelty) score(dst, inputs []float32) {
	d := n.detector
	if n.set == nil {
		dst[0] = d.Score(n.rows)
		if inputs != nil {
			d.ReadInputs(inputs, n.rows)
		}
		return
	}
	k := &n.set.Features.Novelty
	scale, project := k.ScaleMany, k.ProjectMany
	if len(dst) == 1 {
		scale, project = k.Scale, k.Project
	}
	f, once, stride := d.Features(), k.Axes, 4*n.stride
	clear(n.sums[:])
	clear(n.products)
	for at := 0; at < f; at += noveltyBlock {
		scale(&n.sums[0][0], &n.rows[at], &n.center[at], &n.scale[at], stride, min(noveltyBlock, n.stride-at))
		for group := 0; group < len(n.within); group += once {
			project(&n.products[group*kernel.Streams], &n.axes[group*f+at*once], &n.rows[at], stride, min(noveltyBlock, f-at))
		}
	}
	for i := range dst {
		for group := 0; group < len(n.within); group += once {
			copy(n.within[group:], n.products[group*kernel.Streams+i*once:][:once])
		}
		dims, values := d.Dimensions(), d.InputValues()
		dst[i] = d.Of(n.sums[i], n.within[:dims])
		if inputs != nil {
			copy(inputs[i*values:(i+1)*values], n.within[dims:])
		}
	}
}
