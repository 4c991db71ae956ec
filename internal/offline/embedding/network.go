package embedding

import (
	"fmt"
	"math/rand/v2"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/offline/descent"
)

// Spec is the size of a network, with the names of the package comment.
type Spec struct {
	Words, Width, Steps, Hidden, Classes int
	Seed                                 uint64 // of the weights and of the order of the batches
}

// maxParameters bounds a network: with gradient, accumulator and a copy of the
// best weights, 2 GiB.
const maxParameters = 1 << 26

// Validate reports the errors of a spec.
func (s Spec) Validate() error {
	const most = 1 << 24 // products of two fit
	if min(s.Words, s.Width, s.Steps, s.Hidden) < 1 || s.Classes < 2 || max(s.Words, s.Width, s.Steps, s.Hidden, s.Classes) > most ||
		s.Width*s.Steps > most || s.parameters() > maxParameters {
		return fmt.Errorf("embedding: %d words, %d wide, %d steps, %d hidden units, %d classes: want at least 1, 1, 1, 1 and 2, and at most %d weights in all",
			s.Words, s.Width, s.Steps, s.Hidden, s.Classes, maxParameters)
	}
	return nil
}

// outputs returns the width of the output layer.
func (s Spec) outputs() int {
	if s.Classes == 2 {
		return 1
	}
	return s.Classes
}

func (s Spec) parameters() int {
	return s.Words*s.Width + (s.Steps*s.Width+1)*s.Hidden + (s.Hidden+1)*s.outputs()
}

// Document is one text.
type Document struct {
	Tokens []int32 // each below Words; at most Steps of them
	Class  int
}

// weights are all parameters in one slice, and views of the slice. The gradient has the
// same shape.
type weights struct {
	all     []float64
	vectors dense.Matrix // E, Words x Width
	hidden  dense.Matrix // W, Steps*Width x Hidden
	bias    []float64    // b
	output  dense.Matrix // V, Hidden x outputs
	outBias []float64    // c
}

func newWeights(s Spec) weights {
	w := weights{all: make([]float64, s.parameters())}
	rest := descent.Slab(w.all)
	w.vectors = rest.Matrix(s.Words, s.Width)
	w.hidden, w.bias = rest.Matrix(s.Steps*s.Width, s.Hidden), rest.Vector(s.Hidden)
	w.output, w.outBias = rest.Matrix(s.Hidden, s.outputs()), rest.Vector(s.outputs())
	return w
}

// Network is a network and its weights. Not safe for concurrent use.
type Network struct {
	Spec    Spec
	weights weights
	rng     *rand.Rand // weights first, then the batches' order
	batch   []Document // documents of the last forward run
	x       dense.Matrix
	a       dense.Matrix
	scores  dense.Matrix
	da, dx  dense.Matrix // gradients of a and x
}

// firstLimit is the limit of Keras' initial vectors.
const firstLimit = 0.05

// New draws the initial weights of a network.
func New(s Spec) (*Network, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	n := &Network{Spec: s, weights: newWeights(s), rng: rand.New(rand.NewPCG(s.Seed, 0x656d626564))}
	descent.Uniform(n.rng, n.weights.vectors, firstLimit)
	descent.Glorot(n.rng, n.weights.hidden)
	descent.Glorot(n.rng, n.weights.output)
	wide := s.Steps * s.Width
	n.x, n.dx = dense.New(rows, wide), dense.New(rows, wide)
	n.a, n.da = dense.New(rows, s.Hidden), dense.New(rows, s.Hidden)
	n.scores = dense.New(rows, s.outputs())
	return n, nil
}

// Vector returns the vector of a word, shared.
func (n *Network) Vector(word int32) []float64 { return n.weights.vectors.Row(int(word)) }

// rows is the number of documents in a batch. It affects the results.
const rows = 32

// top returns the first n rows of m, zeroed if zero is true.
func top(m dense.Matrix, n int, zero bool) dense.Matrix {
	s := m.Sub(0, 0, n, m.Cols)
	if zero {
		clear(s.Data)
	}
	return s
}

// forward runs at most rows documents and returns their scores.
func (n *Network) forward(batch []Document) dense.Matrix {
	w, size := &n.weights, len(batch)
	n.batch = batch
	for i, d := range batch {
		row := n.x.Row(i)
		for t := range n.Spec.Steps {
			copy(row[t*n.Spec.Width:], n.Vector(n.token(d, t)))
		}
	}
	a, scores := top(n.a, size, true), top(n.scores, size, true)
	dense.Multiply(a, 1, top(n.x, size, false), false, w.hidden, false)
	descent.AddRow(a, w.bias)
	for i, v := range a.Data {
		a.Data[i] = max(0, v)
	}
	dense.Multiply(scores, 1, a, false, w.output, false)
	descent.AddRow(scores, w.outBias)
	return scores
}

// token returns the token of a document at a step.
func (n *Network) token(d Document, step int) int32 {
	if k := step - (n.Spec.Steps - len(d.Tokens)); k >= 0 {
		return d.Tokens[k]
	}
	return 0
}

// backward adds the gradient of the loss to g. n.scores holds the gradient of
// the scores.
func (n *Network) backward(g *weights) {
	w, size := &n.weights, len(n.batch)
	scores, a := top(n.scores, size, false), top(n.a, size, false)
	da, dx := top(n.da, size, true), top(n.dx, size, true)
	dense.Multiply(g.output, 1, a, true, scores, false)
	descent.AddRows(g.outBias, scores)
	dense.Multiply(da, 1, scores, false, w.output, true)
	for i, v := range a.Data {
		if v == 0 {
			da.Data[i] = 0
		}
	}
	dense.Multiply(g.hidden, 1, top(n.x, size, false), true, da, false)
	descent.AddRows(g.bias, da)
	dense.Multiply(dx, 1, da, false, w.hidden, true)
	for i, d := range n.batch {
		row := dx.Row(i)
		for t := range n.Spec.Steps {
			sum := g.vectors.Row(int(n.token(d, t)))
			for c, v := range row[t*n.Spec.Width:][:n.Spec.Width] {
				sum[c] += v
			}
		}
	}
}
