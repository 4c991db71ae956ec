package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Scorer computes the scores of a detector from the states of an engine, several at a
// time with this machine's vector instructions: the same bits as
// novelty.Detector.Score. A Scorer belongs to one goroutine, and allocates nothing
// after its creation.
type Scorer struct {
	detector *novelty.Detector
	packed   *Detector // nil: plain Go
	judge    Judge
	rows     []float32 // features of kernel.Streams sequences, or of one in plain Go
	stride   int       // from one sequence to the next: whole vectors, zeros after the features
}

// Detector is a detector arranged for the kernels.
type Detector struct {
	Plain         *novelty.Detector
	kernels       *kernel.NoveltyKernels
	center, scale []float32 // whole vectors, zeros after the features
	groups        []axes    // its directions, followed by the columns that read inputs
	lanes         int       // of all groups
}

// Judge holds a goroutine's buffers for scoring sequences by detectors.
type Judge struct {
	products []float32 // with directions: by group, then by sequence
	within   []float32 // the same of one sequence
	sums     [kernel.Streams][4]float64
	centered []float32 // a block of features for a readout next to a detector; none before the first
}

// Beside is a readout whose columns are multiplied in the same pass as a detector's
// directions, which leave room in the last vector.
type Beside struct {
	Detector *Detector
	set      *kernel.Set
	columns  []float32 // kernel.TogetherColumns for each feature: directions, input columns, the readout
	First    int       // of the readout's columns,
	mask     int       // the columns as a mask, for the kernel
	Start    []float32 // their intercepts
	center   []float32 // of each feature
	limit    []float32 // of each feature, infinite where the readout has none
}

// PackBeside arranges a detector and a readout; nil if there is no room, or no kernel.
func PackBeside(d *Detector, l *readout.Linear, set *kernel.Set) *Beside {
	directions, n := d.Plain.Dimensions()+d.Plain.InputValues(), l.Features()
	if d.kernels.Together == nil || directions < kernel.TogetherDirections || directions+l.Columns() > kernel.TogetherColumns {
		return nil
	}
	b := &Beside{Detector: d, set: set, First: directions, Start: l.Intercept, center: l.Center, limit: l.Limit}
	b.mask = (1<<l.Columns() - 1) << (directions - kernel.TogetherDirections)
	if b.limit == nil {
		b.limit = slices.Repeat([]float32{float32(math.Inf(1))}, n)
	}
	b.columns = kernel.Aligned(kernel.TogetherColumns * n)
	for c, v := range slices.Concat(d.Plain.Axes, d.Plain.Inputs, l.Weights) {
		b.columns[c%n*kernel.TogetherColumns+c/n] = v
	}
	return b
}

// axes are directions multiplied in one pass.
type axes struct {
	kernels *kernel.ProjectKernels
	first   int       // number of directions before them
	values  []float32 // of each feature
}

// packAxes arranges directions of n features each: as many in one pass as the largest
// kernel takes, and the rest with the smallest kernel that has room.
func packAxes(all []float32, n int, kernels []kernel.ProjectKernels) (groups []axes) {
	for first := 0; first < len(all)/n; {
		g := axes{kernels: &kernels[0], first: first}
		for i := range kernels {
			if kernels[i].Axes >= len(all)/n-first {
				g.kernels = &kernels[i]
			}
		}
		g.values = kernel.Aligned(g.kernels.Axes * n)
		for axis := first; axis < min(first+g.kernels.Axes, len(all)/n); axis++ {
			for j, w := range all[axis*n : (axis+1)*n] {
				g.values[j*g.kernels.Axes+axis-first] = w
			}
		}
		groups = append(groups, g)
		first += g.kernels.Axes
	}
	return groups
}

// packDetector arranges a detector for the kernels of a set.
func Pack(d *novelty.Detector, set *kernel.Set) *Detector {
	f, k := d.Features(), &set.Features.Novelty
	p := &Detector{Plain: d, kernels: k, groups: packAxes(slices.Concat(d.Axes, d.Inputs), f, k.Project)}
	p.center, p.scale = kernel.Aligned(set.WholeVectors(f)), kernel.Aligned(set.WholeVectors(f))
	copy(p.center, d.Center)
	copy(p.scale, d.Scale)
	last := &p.groups[len(p.groups)-1]
	p.lanes = last.first + last.kernels.Axes
	if k.Together != nil { // with a readout next to it
		p.lanes = max(p.lanes, kernel.TogetherColumns)
	}
	return p
}

// NewScorer makes a Scorer. The detector must be valid.
func NewScorer(d *novelty.Detector) *Scorer { return newScorer(d, kernel.Fastest()) }

func newScorer(d *novelty.Detector, set *kernel.Set) *Scorer {
	n := &Scorer{detector: d, stride: d.Features()}
	if set == nil {
		n.rows = make([]float32, n.stride)
		return n
	}
	n.packed, n.stride = Pack(d, set), set.WholeVectors(n.stride)
	n.rows = kernel.Aligned(kernel.Streams * n.stride)
	n.judge.MakeRoom(n.packed)
	return n
}

// Inputs returns the number of input values of each sequence; 0: none.
func (n *Scorer) Inputs() int { return n.detector.InputValues() }

// Score writes the novelty of the sequences in some slots to dst, a score each, and,
// unless inputs is nil, their input values to inputs, Inputs of each.
func (n *Scorer) Score(dst, inputs []float32, e reservoir.Engine, slots []int32) error {
	f := n.detector.Features()
	most := len(n.rows) / n.stride
	for len(slots) > 0 {
		some := min(len(slots), most)
		for i, slot := range slots[:some] {
			if err := e.Features(slot, n.rows[i*n.stride:][:f]); err != nil {
				return fmt.Errorf("reservoir: engine %s: features: %w", e.Name(), err)
			}
		}
		n.scoreSlots(dst[:some], inputs)
		if inputs != nil {
			inputs = inputs[some*n.Inputs():]
		}
		dst, slots = dst[some:], slots[some:]
	}
	return nil
}

// scoreSlots is about the first rows.
func (n *Scorer) scoreSlots(dst, inputs []float32) {
	d, values := n.detector, n.Inputs()
	if n.packed == nil {
		dst[0] = d.Score(n.rows)
		if inputs != nil {
			d.ReadInputs(inputs, n.rows)
		}
		return
	}
	n.judge.Multiply(n.packed, n.rows, n.stride, len(dst))
	for i := range dst {
		var read []float32
		dst[i], read = n.judge.Score(n.packed, i)
		if inputs != nil {
			copy(inputs[i*values:(i+1)*values], read)
		}
	}
}

// MakeRoom allocates the buffers for a detector, if missing.
func (j *Judge) MakeRoom(d *Detector) {
	if len(j.within) < d.lanes {
		j.products, j.within = kernel.Aligned(kernel.Streams*d.lanes), make([]float32, d.lanes)
	}
}

// Multiply multiplies the features of the first sequences, stride values apart, with a
// detector's directions. It overwrites the features; with more than one sequence, those
// of kernel.Streams sequences.
func (j *Judge) Multiply(d *Detector, rows []float32, stride, sequences int) {
	scale := d.kernels.ScaleMany
	if sequences == 1 {
		scale = d.kernels.Scale
	}
	f := d.Plain.Features()
	clear(j.sums[:])
	clear(j.products)
	for at := 0; at < f; at += kernel.NoveltyBlock {
		scale(&j.sums[0][0], &rows[at], &d.center[at], &d.scale[at], 4*stride, min(kernel.NoveltyBlock, len(d.center)-at))
		for i := range d.groups {
			g := &d.groups[i]
			project := g.kernels.Many
			if sequences == 1 {
				project = g.kernels.One
			}
			project(&j.products[g.first*kernel.Streams], &g.values[at*g.kernels.Axes], &rows[at], 4*stride, min(kernel.NoveltyBlock, f-at))
		}
	}
}

// MultiplyBeside is Multiply with a readout next to the detector, for kernel.Streams
// sequences.
func (j *Judge) MultiplyBeside(b *Beside, rows []float32, stride int) {
	d := b.Detector
	f := d.Plain.Features()
	if j.centered == nil {
		j.centered = kernel.Aligned(kernel.Streams * kernel.NoveltyBlock) // once
	}
	clear(j.sums[:])
	clear(j.products)
	for i := range kernel.Streams {
		copy(j.Row(i)[b.First:], b.Start)
	}
	for at := 0; at < f; at += kernel.NoveltyBlock {
		n := min(kernel.NoveltyBlock, f-at)
		for i := range kernel.Streams {
			b.set.Features.Limited(&j.centered[i*kernel.NoveltyBlock], &rows[i*stride+at], &b.center[at], &b.limit[at], n)
		}
		d.kernels.ScaleMany(&j.sums[0][0], &rows[at], &d.center[at], &d.scale[at], 4*stride, min(kernel.NoveltyBlock, len(d.center)-at))
		d.kernels.Together(&j.products[0], &b.columns[at*kernel.TogetherColumns], &rows[at], 4*stride, &j.centered[0], b.mask, n)
	}
}

// Row returns the products of sequence i after MultiplyBeside.
func (j *Judge) Row(i int) []float32 {
	return j.products[i*kernel.TogetherColumns:][:kernel.TogetherColumns]
}

// Score returns the score of sequence i, and its input values, valid until the next
// call.
func (j *Judge) Score(d *Detector, i int) (score float32, inputs []float32) {
	for k := range d.groups {
		g := &d.groups[k]
		copy(j.within[g.first:], j.products[g.first*kernel.Streams+i*g.kernels.Axes:][:g.kernels.Axes])
	}
	return j.ScoreOf(d, i, j.within)
}

// ScoreOf returns the score of products.
func (j *Judge) ScoreOf(d *Detector, i int, products []float32) (score float32, inputs []float32) {
	dims := d.Plain.Dimensions()
	return d.Plain.Of(j.sums[i], products[:dims]), products[dims : dims+d.Plain.InputValues()]
}
