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

// Novelty computes the scores of a detector from the states of an engine, several at
// a time on this machine's vectors: the bits of novelty.Detector.Score. It belongs to one
// goroutine, and allocates nothing once it is made.
type Scorer struct {
	detector *novelty.Detector
	packed   *Detector // nil: plain Go
	judge    Judge
	rows     []float32 // features of kernel.Streams sequences, or of one in plain Go
	stride   int       // from a sequence's to the next: whole vectors, zeros behind the features
}

// detector is one arranged for the kernels.
type Detector struct {
	Plain         *novelty.Detector
	kernels       *kernel.NoveltyKernels
	center, scale []float32 // whole vectors, zeros behind those of the features
	groups        []axes    // its directions, and behind them what reads inputs
	lanes         int       // of all groups
}

// judge is what a goroutine needs to score sequences by detectors.
type Judge struct {
	products []float32 // with directions: by group, then by sequence
	within   []float32 // the same of one sequence
	sums     [kernel.Streams][4]float64
	centred  []float32 // a block of features for a readout beside a detector; none before one
}

// beside is a readout whose columns are multiplied in the same pass as a detector's
// directions, which leave room in the last vector.
type Beside struct {
	Detector *Detector
	set      *kernel.Set
	columns  []float32 // kernel.TogetherColumns for each feature: directions, what reads inputs, the readout
	First    int       // of the readout's columns,
	mask     int       // and which they are, for the kernel
	Start    []float32 // their intercepts
	center   []float32 // of each feature
	limit    []float32 // of each feature, infinite where the readout has none
}

// packBeside arranges a detector and a readout; nil where there is no room, or no kernel.
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

// axes are directions that are taken at once.
type axes struct {
	kernels *kernel.ProjectKernels
	first   int       // how many are before them
	values  []float32 // of each feature
}

// packAxes arranges directions of n features each: as many at once as there are kernels for,
// and the rest with the fewest that have room for them.
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
	if k.Together != nil { // with a readout beside it
		p.lanes = max(p.lanes, kernel.TogetherColumns)
	}
	return p
}

// NewNovelty makes one. The detector must be valid.
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

// Inputs is how many values of its inputs there are of each sequence; 0: none.
func (n *Scorer) Inputs() int { return n.detector.InputValues() }

// Score writes how unlike the training part the sequences in some slots are to dst, a
// score each, and to inputs, where that is not nil, what their inputs are like, Inputs of
// each.
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

// makeRoom makes room for what a detector needs, where there is none yet.
func (j *Judge) MakeRoom(d *Detector) {
	if len(j.within) < d.lanes {
		j.products, j.within = kernel.Aligned(kernel.Streams*d.lanes), make([]float32, d.lanes)
	}
}

// take multiplies the features of the first sequences, stride values apart, with what a
// detector has. It overwrites them, and those behind them if it takes more than one: it
// takes kernel.Streams then.
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

// takeBeside is take with a readout beside the detector, for kernel.Streams sequences.
func (j *Judge) MultiplyBeside(b *Beside, rows []float32, stride int) {
	d := b.Detector
	f := d.Plain.Features()
	if j.centred == nil {
		j.centred = kernel.Aligned(kernel.Streams * kernel.NoveltyBlock) // once
	}
	clear(j.sums[:])
	clear(j.products)
	for i := range kernel.Streams {
		copy(j.Row(i)[b.First:], b.Start)
	}
	for at := 0; at < f; at += kernel.NoveltyBlock {
		n := min(kernel.NoveltyBlock, f-at)
		for i := range kernel.Streams {
			b.set.Features.Limited(&j.centred[i*kernel.NoveltyBlock], &rows[i*stride+at], &b.center[at], &b.limit[at], n)
		}
		d.kernels.ScaleMany(&j.sums[0][0], &rows[at], &d.center[at], &d.scale[at], 4*stride, min(kernel.NoveltyBlock, len(d.center)-at))
		d.kernels.Together(&j.products[0], &b.columns[at*kernel.TogetherColumns], &rows[at], 4*stride, &j.centred[0], b.mask, n)
	}
}

// row is the products of sequence i of those taken with a readout beside a detector.
func (j *Judge) Row(i int) []float32 {
	return j.products[i*kernel.TogetherColumns:][:kernel.TogetherColumns]
}

// of is the score of sequence i of those taken, and what its inputs are like, until the next
// is asked for.
func (j *Judge) Score(d *Detector, i int) (score float32, inputs []float32) {
	for k := range d.groups {
		g := &d.groups[k]
		copy(j.within[g.first:], j.products[g.first*kernel.Streams+i*g.kernels.Axes:][:g.kernels.Axes])
	}
	return j.ScoreOf(d, i, j.within)
}

// says is that of products.
func (j *Judge) ScoreOf(d *Detector, i int, products []float32) (score float32, inputs []float32) {
	dims := d.Plain.Dimensions()
	return d.Plain.Of(j.sums[i], products[:dims]), products[dims : dims+d.Plain.InputValues()]
}
