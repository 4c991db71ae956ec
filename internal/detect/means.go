package detect

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// MostStatistics limits the statistics of a detector: the cost of a score grows with the
// square.
const MostStatistics = 256

// The choices of means, from development data (doc.go).
const (
	meansShrink = .1     // share by which correlations are reduced
	meansShare  = 1. / 3 // of the level's limit that comes from the means
)

// checkStatistics rejects statistics that are invalid for n sequences.
func (o *Options) checkStatistics(n int) error {
	d := len(o.Statistics) / n
	if o.Statistics != nil && (o.ByPlace || o.Means < 1 || d == 0 || d*n != len(o.Statistics) || d%o.Means != 0 || d > MostStatistics) {
		return fmt.Errorf("detect: %d statistics of %d sequences, %d means, by place %v: want as many means of each channel, at most %d statistics of each sequence, and not by place", len(o.Statistics), n, o.Means, o.ByPlace, MostStatistics)
	}
	return nil
}

// levelsOf returns the running means of n sequences, a row of each, from statistics
// (reservoir.Front.Statistics): the first of each channel is the shortest mean, the others are
// differences to the next longer mean.
func levelsOf(statistics []float32, n, means int) dense.Matrix {
	l := dense.New(n, len(statistics)/n)
	for i := range n {
		row := l.Row(i)
		for j, v := range statistics[i*l.Cols : (i+1)*l.Cols] {
			row[j] = float64(v)
			if j%means > 0 {
				row[j] = row[j-1] - row[j]
			}
		}
	}
	return l
}

// whitening converts the levels of a sequence to values of variance 1 without correlation.
type whitening struct {
	mean []float64
	axes dense.Matrix // directions x levels
}

// learnWhitening learns from some rows of levels. nil: no level varies.
func learnWhitening(ctx context.Context, l dense.Matrix, rows []int) (*whitening, error) {
	d, n := l.Cols, float64(len(rows))
	mean, variance := make([]float64, d), make([]float64, d)
	for _, i := range rows {
		for j, v := range l.Row(i) {
			mean[j] += v / n
		}
	}
	z := dense.New(len(rows), d)
	for k, i := range rows {
		for j, v := range l.Row(i) {
			z.Row(k)[j] = v - mean[j]
			variance[j] += float64(z.Row(k)[j]*z.Row(k)[j]) / n
		}
	}
	scale := deviation(mean, variance)
	if !slices.ContainsFunc(scale, func(v float64) bool { return v != 0 }) {
		return nil, nil
	}
	for k := range z.Rows {
		for j, v := range scale {
			z.Row(k)[j] *= v
		}
	}
	w := &whitening{mean, dense.New(d, d)}
	dense.Multiply(w.axes, (1-meansShrink)/n, z, true, z, false)
	for j := range d {
		w.axes.Row(j)[j] = 1
	}
	if err := dense.Cholesky(ctx, w.axes); err != nil {
		return nil, err
	}
	if err := dense.InvertLower(ctx, w.axes); err != nil {
		return nil, err
	}
	for i := range d {
		row := w.axes.Row(i)
		clear(row[i+1:])
		for j := range row[:i+1] {
			row[j] *= scale[j]
		}
	}
	return w, nil
}

// distances writes the squared lengths of some sequences to their positions in to.
func (w *whitening) distances(l dense.Matrix, rows []int, to []float64) {
	dense.Parallel(len(rows), 8, func(lo, hi int) {
		for _, i := range rows[lo:hi] {
			to[i] = 0
			for k := range w.axes.Rows {
				t, level := 0., l.Row(i)
				for j, v := range w.axes.Row(k)[:k+1] {
					t += float64(v * (level[j] - w.mean[j]))
				}
				to[i] += float64(t * t)
			}
		}
	})
}

// detectorWithMeans is detector, with the weighted squares of running means added to the
// residuals of left-out sequences. of and inside divide the sequences (divide).
func (l *learner) detectorWithMeans(ctx context.Context, s *subspace, of []int, inside [][]int, left []float64) (*novelty.Detector, error) {
	means, weight, err := l.addMeans(ctx, of, inside, left)
	if err != nil {
		return nil, err
	}
	d := l.detector(s, left)
	if means != nil {
		d.Means = means.toStatistics(math.Sqrt(weight/float64(d.Unit)), l.opt.Means)
	}
	return d, nil
}

// addMeans learns running means, and adds their squares times a weight to left. nil: no
// statistics, or no use.
func (l *learner) addMeans(ctx context.Context, of []int, inside [][]int, left []float64) (whole *whitening, weight float64, err error) {
	if l.opt.Statistics == nil {
		return nil, 0, nil
	}
	n := len(left)
	levels, all := levelsOf(l.opt.Statistics, n, l.opt.Means), make([]int, n)
	for i := range all {
		all[i] = i
	}
	if whole, err = learnWhitening(ctx, levels, all); err != nil || whole == nil {
		return nil, 0, err
	}
	distances := make([]float64, n)
	for fold := range inside {
		other, err := learnWhitening(ctx, levels, inside[fold])
		if err != nil || other == nil {
			return nil, 0, err
		}
		other.distances(levels, membersOf(of, fold), distances)
	}
	weight = meansShare / (1 - meansShare) * limitOf(left, l.opt.Level) / limitOf(distances, l.opt.Level)
	if !(weight > 0) || math.IsInf(weight, 0) { // a limit of 0
		return nil, 0, nil
	}
	for i, d := range distances {
		left[i] += float64(weight * d)
	}
	return whole, weight, nil
}

// limitOf returns the value that a share of level of the values reaches, at least one value.
func limitOf(values []float64, level float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)-max(1, int(level*float64(len(sorted)+1)))]
}

// toStatistics returns the directions, times factor, for statistics.
func (w *whitening) toStatistics(factor float64, means int) *novelty.Means {
	d := len(w.mean)
	m := &novelty.Means{Center: make([]float32, d), Axes: make([]float32, d*d)}
	for j, v := range w.mean {
		if j%means > 0 {
			v = w.mean[j-1] - v
		}
		m.Center[j] = float32(v)
	}
	for k := range d {
		for j := 0; j < d; j += means { // a statistic changes its level, and the following ones of the channel
			sum := 0.
			for i := means - 1; i > 0; i-- {
				sum += w.axes.Row(k)[j+i]
				m.Axes[k*d+j+i] = float32(-factor * sum)
			}
			m.Axes[k*d+j] = float32(factor * (sum + w.axes.Row(k)[j]))
		}
	}
	return m
}
