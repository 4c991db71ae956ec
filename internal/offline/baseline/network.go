package baseline

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/offline/descent"
)

// Arithmetic is the version of a training's computation: with another version, the same
// data, options and seed give other weights. 1 was float64.
const Arithmetic = 2

// Kind is a model of the package comment.
type Kind string

// The models.
const (
	RNN  Kind = "rnn"
	ARNN Kind = "arnn"
	GRU  Kind = "gru"
)

// Spec describes a network. Eps and Gamma belong to ARNN.
type Spec struct {
	Kind                     Kind
	Units, Channels, Classes int
	Eps, Gamma               float64
	Seed                     uint64 // of the weights and of the order of the batches
}

// maxSize bounds units, channels and classes, so that their products fit.
const maxSize = 1 << 14

// Validate reports the errors of a spec.
func (s Spec) Validate() error {
	switch s.Kind {
	case RNN, ARNN, GRU:
	default:
		return fmt.Errorf("baseline: model %q, want one of %q", s.Kind, []Kind{RNN, ARNN, GRU})
	}
	if s.Units < 1 || s.Channels < 1 || s.Classes < 2 || max(s.Units, s.Channels, s.Classes) > maxSize {
		return fmt.Errorf("baseline: %d units, %d channels, %d classes, want at least 1, 1 and 2, at most %d", s.Units, s.Channels, s.Classes, maxSize)
	}
	if s.Kind == ARNN && !(s.Eps > 0 && s.Eps <= 1 && s.Gamma >= 0 && s.Gamma <= 1) {
		return fmt.Errorf("baseline: eps %v, gamma %v, want eps in (0,1] and gamma in [0,1]", s.Eps, s.Gamma)
	}
	return nil
}

// gates returns the number of N-wide pre-activations of a step.
func (s Spec) gates() int {
	if s.Kind == GRU {
		return 3
	}
	return 1
}

// outputs returns the width of the output layer.
func (s Spec) outputs() int {
	if s.Classes == 2 {
		return 1
	}
	return s.Classes
}

// Parameters is the number of trained weights.
func (s Spec) Parameters() int {
	g, n, k := s.gates(), s.Units, s.outputs()
	p := g*n*(n+s.Channels+1) + k*(n+1)
	if s.Kind == GRU {
		p += g * n
	}
	return p
}

// layout is a spec and the widths of its arrays: whole vectors. The padding is zero, and
// stays zero.
type layout struct {
	Spec
	units   int // of a state
	tail    int // columns after the state: a 1 and the sample
	wide    int // of the arguments of a step: units of all gates
	outputs int // of the scores
}

func (s Spec) layout() layout {
	units := roundUp(s.Units, lanes)
	return layout{s, units, roundUp(1+s.Channels, 4), s.gates() * units, roundUp(s.outputs(), lanes)}
}

// weights are all parameters in one slice, and views of the slice. Gradients and moments
// have the same shape. A row of the tape (a state, a 1 and a sample) times cell is the
// argument of rnn. The rows are therefore the recurrent weights, the bias, the input
// weights. For gru, cell ends with the second bias c, and input holds the first bias and
// the input weights.
type weights struct {
	all    []float32
	cell   matrix
	input  matrix // gru only
	output matrix // weights and bias; the rest of four rows is empty
}

func (l layout) weights() (w weights) {
	sizes := []struct {
		to         *matrix
		rows, cols int
	}{{&w.cell, l.units + l.tail, l.wide}, {&w.input, 0, l.wide}, {&w.output, l.units + 4, l.outputs}}
	if l.Kind == GRU {
		sizes[0].rows, sizes[1].rows = l.units+4, l.tail
	}
	all := 0
	for _, s := range sizes {
		all += s.rows * s.cols
	}
	w.all = make([]float32, all)
	rest := w.all
	for _, s := range sizes {
		n := s.rows * s.cols
		*s.to, rest = matrix{s.rows, s.cols, s.cols, rest[:n:n]}, rest[n:]
	}
	return w
}

// samples returns the rows of the input weights.
func (l layout) samples(w weights) matrix {
	if l.Kind == GRU {
		return w.input.part(1, 0, l.Channels, l.wide)
	}
	return w.cell.part(l.units+1, 0, l.Channels, l.wide)
}

// setMatrix stores m, each of whose gates parts has fewer columns than the parts of to.
func setMatrix(to matrix, m dense.Matrix, gates int) {
	from, width := m.Cols/gates, to.cols/gates
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			to.row(i)[j/from*width+j%from] = float32(v)
		}
	}
}

// Network is a model and its weights. Not safe for concurrent use.
type Network struct {
	Spec    Spec
	layout  layout
	weights weights
	rng     *rand.Rand // weights first, then the batches' order
	turned  matrix     // arnn: the matrix for a row of the tape
	tape    tape

	// The weights as right factors: for a row of the tape; for the gradient of the
	// arguments; for gru's samples; for a last state; for the gradient of the scores.
	ahead, back, input, output, outputBack packed
}

// New draws the initial weights of a network.
func New(s Spec) (*Network, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	l := s.layout()
	n := &Network{Spec: s, layout: l, weights: l.weights(), rng: rand.New(rand.NewPCG(s.Seed, 0x7261696e6564))}
	wide := s.gates() * s.Units
	input, recurrent, output := dense.New(s.Channels, wide), dense.New(s.Units, wide), dense.New(s.Units, s.outputs())
	if s.Kind == ARNN {
		deviation := math.Sqrt(2 / float64(input.Rows+input.Cols))
		for i := range input.Data {
			input.Data[i] = deviation * n.rng.NormFloat64()
		}
	} else {
		descent.Glorot(n.rng, input)
	}
	orthogonal(n.rng, recurrent)
	descent.Glorot(n.rng, output)
	setMatrix(l.samples(n.weights), input, s.gates())
	setMatrix(n.weights.cell, recurrent, s.gates())
	setMatrix(n.weights.output, output, 1)
	n.refresh()
	return n, nil
}

// orthogonal fills m, which has no more rows than columns, with orthonormal rows: normal
// rows, orthogonalized from the first to the last (Gram-Schmidt), twice, because a single
// pass leaves rounding errors that grow with the number of rows.
func orthogonal(rng *rand.Rand, m dense.Matrix) {
	for i := range m.Rows {
		row := m.Row(i)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		for range 2 {
			for k := range i {
				subtract(row, dot(row, m.Row(k)), m.Row(k))
			}
		}
		length := math.Sqrt(dot(row, row))
		for j := range row {
			row[j] /= length
		}
	}
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

// subtract computes a -= f*b.
func subtract(a []float64, f float64, b []float64) {
	for i, x := range b {
		a[i] -= float64(f * x)
	}
}

// refresh updates the packed copies of the weights.
func (n *Network) refresh() {
	l, w := n.layout, &n.weights
	cell, depth := w.cell, l.units+1
	switch l.Kind {
	case GRU:
		n.input.pack(w.input.part(0, 0, 1+l.Channels, l.wide))
	case ARNN:
		cell = n.antisymmetric()
		fallthrough
	default:
		depth += l.Channels
	}
	n.ahead.pack(cell.part(0, 0, depth, l.wide))
	n.back.packTransposed(cell.part(0, 0, l.units, l.wide))
	n.output.pack(w.output.part(0, 0, l.units+1, l.outputs))
	n.outputBack.packTransposed(w.output.part(0, 0, l.units, l.outputs))
}

// antisymmetric returns the matrix W - W' - gamma*I, with the following rows of cell.
func (n *Network) antisymmetric() matrix {
	cell, gamma := n.weights.cell, float32(n.Spec.Gamma)
	if n.turned.data == nil {
		n.turned = matrix{cell.rows, cell.cols, cell.stride, make([]float32, len(cell.data))}
	}
	copy(n.turned.data, cell.data)
	for i := range n.Spec.Units {
		row := n.turned.row(i)
		row[i] = -gamma
		for j := range i {
			v := cell.row(i)[j] - cell.row(j)[i]
			row[j], n.turned.row(j)[i] = v, -v
		}
	}
	return n.turned
}
