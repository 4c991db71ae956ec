// Package descent holds the common parts of classifiers with gradient descent:
// parameters, initial weights, and the loss with its gradient.
package descent

import (
	"math"
	"math/rand/v2"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// Slab is the unallocated rest of a model's parameters. All parameters of a model lie in
// one slice, which an optimizer updates as a whole.
type Slab []float64

// Vector allocates the next n parameters.
func (s *Slab) Vector(n int) []float64 {
	v := (*s)[:n:n]
	*s = (*s)[n:]
	return v
}

// Matrix allocates the next rows*cols parameters.
func (s *Slab) Matrix(rows, cols int) dense.Matrix {
	return dense.Matrix{Rows: rows, Cols: cols, Stride: cols, Data: s.Vector(rows * cols)}
}

// Glorot fills m uniformly with variance 2/(rows+columns) (Glorot and Bengio
// 2010, "Understanding the difficulty of training deep feedforward networks").
func Glorot(rng *rand.Rand, m dense.Matrix) {
	Uniform(rng, m, math.Sqrt(6/float64(m.Rows+m.Cols)))
}

// Uniform fills m uniformly from -limit to limit.
func Uniform(rng *rand.Rand, m dense.Matrix, limit float64) {
	for i := range m.Data {
		m.Data[i] = limit * float64(2*rng.Float64()-1)
	}
}

// CrossEntropy replaces the scores of one sample by the gradient of its cross-entropy,
// times weight, and returns the cross-entropy and the class with the largest score (the
// first of equals). A single score belongs to a sigmoid, for two classes; several scores
// belong to a softmax.
func CrossEntropy(scores []float64, class int, weight float64) (loss float64, best int) {
	if len(scores) == 1 {
		x, target := scores[0], float64(class)
		if x > 0 {
			best = 1
		}
		// log(1+exp(x)) - target*x, without overflow
		loss = max(x, 0) - float64(target*x) + math.Log1p(math.Exp(-math.Abs(x)))
		scores[0] = weight * (Sigmoid(x) - target)
		return loss, best
	}
	for k, x := range scores {
		if x > scores[best] {
			best = k
		}
	}
	top, sum := scores[best], 0.0
	for _, x := range scores {
		sum += math.Exp(x - top)
	}
	total := top + math.Log(sum)
	loss = total - scores[class]
	for k, x := range scores {
		scores[k] = weight * math.Exp(x-total)
	}
	scores[class] -= weight
	return loss, best
}

// Sigmoid is the logistic function.
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// AddRow adds b to every row of m.
func AddRow(m dense.Matrix, b []float64) {
	for i := range m.Rows {
		row := m.Row(i)
		for j, v := range b {
			row[j] += v
		}
	}
}

// AddRows adds every row of m to sum.
func AddRows(sum []float64, m dense.Matrix) {
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			sum[j] += v
		}
	}
}
