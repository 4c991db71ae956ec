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
	groups   []axes    // of the detector, and behind them what reads inputs
	products []float32 // with them: by group, then by sequence
	within   []float32 // the same of one sequence
	sums     [kernel.Streams][4]float64
}

// axes are directions that are taken at once.
type axes struct {
	*kernel.ProjectKernels
	first  int       // how many are before them
	values []float32 // of each feature
}

// packAxes arranges directions of n features each: as many at once as there are kernels for,
// and the rest with the fewest that have room for them.
func packAxes(all []float32, n int, kernels []kernel.ProjectKernels) (groups []axes) {
	for first := 0; first < len(all)/n; {
		g := axes{&kernels[0], first, nil}
		for i := range kernels {
			if kernels[i].Axes >= len(all)/n-first {
				g.ProjectKernels = &kernels[i]
			}
		}
		g.values = kernel.Aligned(g.Axes * n)
		for axis := first; axis < min(first+g.Axes, len(all)/n); axis++ {
			for j, w := range all[axis*n : (axis+1)*n] {
				g.values[j*g.Axes+axis-first] = w
			}
		}
		groups = append(groups, g)
		first += g.Axes
	}
	return groups
}

// noveltyBlock is how many features of all sequences are taken at once: few enough that
// they are in the level 1 cache when they are multiplied. It is a number of whole vectors.
const noveltyBlock = 512

// NewNovelty makes one. The detector must be valid.
func NewNovelty(d *novelty.Detector) *Novelty { return newNovelty(d, fastest()) }

func newNovelty(d *novelty.Detector, set *kernel.Set) *Novelty {
	f := d.Features()
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
	n.groups = packAxes(slices.Concat(d.Axes, d.Inputs), f, set.Features.Novelty.Project)
	last := n.groups[len(n.groups)-1]
	n.within = make([]float32, last.first+last.Axes)
	n.products = kernel.Aligned(kernel.Streams * len(n.within))
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
	scale := k.ScaleMany
	if len(dst) == 1 {
		scale = k.Scale
	}
	f, stride := d.Features(), 4*n.stride
	clear(n.sums[:])
	clear(n.products)
	for at := 0; at < f; at += noveltyBlock {
		scale(&n.sums[0][0], &n.rows[at], &n.center[at], &n.scale[at], stride, min(noveltyBlock, n.stride-at))
		for i := range n.groups {
			g := &n.groups[i]
			project := g.Many
			if len(dst) == 1 {
				project = g.One
			}
			project(&n.products[g.first*kernel.Streams], &g.values[at*g.Axes], &n.rows[at], stride, min(noveltyBlock, f-at))
		}
	}
	for i := range dst {
		for k := range n.groups {
			g := &n.groups[k]
			copy(n.within[g.first:], n.products[g.first*kernel.Streams+i*g.Axes:][:g.Axes])
		}
		dims, values := d.Dimensions(), d.InputValues()
		dst[i] = d.Of(n.sums[i], n.within[:dims])
		if inputs != nil {
			copy(inputs[i*values:(i+1)*values], n.within[dims:])
		}
	}
}
