package baseline

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/offline/internal/descent"
)

// Kind is one of the package comment's models.
type Kind string

// The models.
const (
	RNN  Kind = "rnn"
	ARNN Kind = "arnn"
	GRU  Kind = "gru"
)

// Spec says what to train. Eps and Gamma are those of ARNN.
type Spec struct {
	Kind                     Kind
	Units, Channels, Classes int
	Eps, Gamma               float64
	Seed                     uint64 // of the weights and of the order of the batches
}

// maxSize bounds units, channels and classes, so that their products fit.
const maxSize = 1 << 14

// Validate reports what is wrong with a spec.
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

// gates is how many N-wide pre-activations a step has.
func (s Spec) gates() int {
	if s.Kind == GRU {
		return 3
	}
	return 1
}

// outputs is the width of the output layer.
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

// weights are all parameters in one slice, and the views of it. Gradients and
// moments have the same shape.
type weights struct {
	all       []float64
	input     dense.Matrix // C x GN
	recurrent dense.Matrix // N x GN
	bias      []float64    // GN
	inner     []float64    // GN, gru's second bias; nil for the others
	output    dense.Matrix // N x K
	outBias   []float64    // K
}

func newWeights(s Spec) weights {
	w := weights{all: make([]float64, s.Parameters())}
	rest := descent.Slab(w.all)
	wide := s.gates() * s.Units
	w.input, w.recurrent, w.bias = rest.Matrix(s.Channels, wide), rest.Matrix(s.Units, wide), rest.Vector(wide)
	if s.Kind == GRU {
		w.inner = rest.Vector(wide)
	}
	w.output, w.outBias = rest.Matrix(s.Units, s.outputs()), rest.Vector(s.outputs())
	return w
}

// Network is a model and its weights. Not safe for concurrent use.
type Network struct {
	Spec    Spec
	weights weights
	matrix  dense.Matrix // what multiplies the state: the recurrent weights, or made of them
	ahead   dense.Packed // matrix, for the run forward
	back    dense.Packed // its transpose, for the run backward
	rng     *rand.Rand   // weights first, then the batches' order
	turned  dense.Matrix // arnn's matrix
	tape    tape
}

// New draws a network's first weights.
func New(s Spec) (*Network, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	n := &Network{Spec: s, weights: newWeights(s), rng: rand.New(rand.NewPCG(s.Seed, 0x7261696e6564))}
	w := &n.weights
	if s.Kind == ARNN {
		deviation := math.Sqrt(2 / float64(w.input.Rows+w.input.Cols))
		for i := range w.input.Data {
			w.input.Data[i] = deviation * n.rng.NormFloat64()
		}
	} else {
		descent.Glorot(n.rng, w.input)
	}
	orthogonal(n.rng, w.recurrent)
	descent.Glorot(n.rng, w.output)
	n.refresh()
	return n, nil
}

// orthogonal fills m, which has no more rows than columns, with orthonormal
// rows: normal ones made so from the first to the last (Gram-Schmidt), twice,
// because once leaves rounding errors that grow with the number of rows.
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

// refresh makes what follows from the weights.
func (n *Network) refresh() {
	n.matrix = n.weights.recurrent
	if n.Spec.Kind == ARNN {
		n.turn()
	}
	n.ahead.Pack(n.matrix, false)
	n.back.Pack(n.matrix, true)
}

// turn makes the matrix W - W' - gamma*I.
func (n *Network) turn() {
	w, size := n.weights.recurrent, n.Spec.Units
	if n.turned.Data == nil {
		n.turned = dense.New(size, size)
	}
	n.matrix = n.turned
	for i := range size {
		row := n.matrix.Row(i)
		for j := range row {
			row[j] = w.Data[i*size+j] - w.Data[j*size+i]
		}
		row[i] = -n.Spec.Gamma
	}
}
