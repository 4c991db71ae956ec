package fit

import (
	"errors"
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// targets holds the centered values to learn: the ridge classifier's coding of labels, +1 and
// -1, or numbers.
type targets struct {
	labels  []int     // of the left-out samples
	n       int       // samples in all
	mean    []float64 // one per column
	weights []float64 // of the classes, with a mean of 1 over all samples; nil: all 1
	numbers []float64 // of the left-out samples; nil: labels are coded
}

// at returns the target of a sample in a column.
func (y targets) at(i, column int) float64 {
	if y.numbers != nil {
		return y.numbers[i]
	}
	return y.sign(y.labels[i], column)
}

// newTargets returns the targets of samples; counts are the samples of each class.
func newTargets(labels, counts []int, weights []float64) targets {
	n := 0
	for _, c := range counts {
		n += c
	}
	return targets{labels, n, targetMeans(counts, weights), weights, nil}
}

// columnsFor is readout.Linear.Columns for a number of classes.
func columnsFor(classes int) int {
	if classes == 2 {
		return 1
	}
	return classes
}

// sign returns the coded target of a label in a column.
func (y targets) sign(label, column int) float64 {
	if len(y.mean) == 1 {
		column = 1
	}
	if label == column {
		return 1
	}
	return -1
}

// targetMeans returns the mean of each target column, from the samples per class and the
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

// centered returns the n x columns matrix of targets.
func (y targets) centered() dense.Matrix {
	m := dense.New(len(y.labels), len(y.mean))
	for i := range y.labels {
		for c := range m.Row(i) {
			m.Row(i)[c] = y.at(i, c) - y.mean[c]
		}
	}
	return m
}

// root returns the square root of a sample's weight, the factor of its row in a weighted least
// squares problem.
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

// numbers are the values to learn in a regression.
type numbers struct {
	of          []float64 // of all samples; in a job, of the left-out samples
	mean        float64   // of all samples
	least, most float64   // of all samples
}

// newNumbers checks Options.Numbers for the given counts of samples and names; nil without
// numbers. classes is true if an option requires classes.
func newNumbers(of []float64, samples, names int, coverage float64, classes bool) (*numbers, error) {
	switch {
	case of == nil:
		return nil, nil
	case len(of) != samples:
		return nil, fmt.Errorf("fit: %d numbers, want one for each of %d samples", len(of), samples)
	case names != 1:
		return nil, fmt.Errorf("fit: numbers with %d names, want one: of what they are", names)
	case coverage == 0:
		return nil, errors.New("fit: numbers without a coverage of their intervals, such as 0.95")
	case classes:
		return nil, errors.New("fit: numbers with priors, class weights, a coverage by class or a largest error: there are no classes")
	}
	m := &numbers{of: of, least: math.Inf(1), most: math.Inf(-1)}
	for i, v := range m.of {
		if !(math.Abs(v) <= mostNumber) {
			return nil, fmt.Errorf("fit: sample %d: number %v, want a magnitude of at most %g", i, v, float64(mostNumber))
		}
		m.mean += v
		m.least, m.most = min(m.least, v), max(m.most, v)
	}
	if !(m.least < m.most) {
		return nil, fmt.Errorf("fit: all %d numbers are %v: there is nothing to learn", len(m.of), m.of[:min(1, len(m.of))])
	}
	m.mean /= float64(len(m.of))
	return m, nil
}

// mostNumber limits numbers, so that neither their squares nor float32 weights overflow.
const mostNumber = 1e30

// some returns the centered numbers of n samples.
func (m *numbers) some(dst []float64, from, n int) []float64 {
	for _, v := range m.of[from : from+n] {
		dst = append(dst, v-m.mean)
	}
	return dst
}

// targets returns the targets of numbers, counts being the samples of all; without numbers,
// the targets of labels.
func (m *numbers) targets(labels, counts []int, weights []float64) targets {
	if m == nil {
		return newTargets(labels, counts, weights)
	}
	return targets{labels, counts[0], []float64{m.mean}, nil, m.of}
}
