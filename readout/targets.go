package readout

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// targets is the ridge classifier's coding of labels: +1 and -1, centred.
type targets struct {
	labels  []int     // of the samples left out in turn
	n       int       // samples in all
	mean    []float64 // one per column
	weights []float64 // of the classes, with a mean of 1 over all samples; nil: all 1
}

// newTargets are those of samples, of which so many are of each class.
func newTargets(labels, counts []int, weights []float64) targets {
	n := 0
	for _, c := range counts {
		n += c
	}
	return targets{labels, n, targetMeans(counts, weights), weights}
}

// columnsFor is Linear.Columns for a number of classes.
func columnsFor(classes int) int {
	if classes == 2 {
		return 1
	}
	return classes
}

// sign is the coded target of a label in a column.
func (y targets) sign(label, column int) float64 {
	if len(y.mean) == 1 {
		column = 1
	}
	if label == column {
		return 1
	}
	return -1
}

// targetMeans is the mean of each target column, from the samples per class and the
// classes' weights.
func targetMeans(counts []int, weights []float64) []float64 {
	n := total(counts, weights)
	mean := make([]float64, columnsFor(len(counts)))
	for c := range mean {
		k := c
		if len(mean) == 1 {
			k = 1
		}
		mean[c] = (2*(weightAt(weights, k)*float64(counts[k])) - n) / n
	}
	return mean
}

// centred is the n x columns matrix of targets.
func (y targets) centred() dense.Matrix {
	m := dense.New(len(y.labels), len(y.mean))
	for i, label := range y.labels {
		for c := range m.Row(i) {
			m.Row(i)[c] = y.sign(label, c) - y.mean[c]
		}
	}
	return m
}

// root is the square root of a sample's weight: what its row of a weighted least
// squares problem is multiplied by.
func (y targets) root(label int) float64 { return math.Sqrt(weightAt(y.weights, label)) }

// scale multiplies the rows of m, one for each sample, by their roots.
func (y targets) scale(m dense.Matrix) {
	if y.weights == nil {
		return
	}
	for i, l := range y.labels {
		root, row := y.root(l), m.Row(i)
		for c := range row {
			row[c] *= root
		}
	}
}
