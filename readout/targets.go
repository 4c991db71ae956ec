package readout

import "github.com/eusn-stream/eusn-stream/internal/dense"

// targets is the ridge classifier's coding of labels: +1 and -1, centred.
type targets struct {
	labels []int     // of the samples left out in turn
	n      int       // samples in all
	mean   []float64 // one per column
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

// targetMeans is the mean of each target column, from the samples per class.
func targetMeans(counts []int) []float64 {
	n := 0
	for _, c := range counts {
		n += c
	}
	mean := make([]float64, columnsFor(len(counts)))
	for c := range mean {
		k := c
		if len(mean) == 1 {
			k = 1
		}
		mean[c] = float64(2*counts[k]-n) / float64(n)
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
