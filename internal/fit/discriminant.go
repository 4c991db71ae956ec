package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// discriminant is the regularized linear discriminant of one alpha, as an addition to the
// ridge classifier of the same alpha:
//
//	score_j(x) = tau * (m_j' A x - m_j' A m_j / 2),   A = (S + alpha I)^-1
//
// with x and the classes' means m_j about the mean of all samples and S the scatter within
// classes: -1/2 the squared Mahalanobis distance to a class's mean, without the part common to
// all classes; classes are equally likely a priori.
//
// No second matrix of the size of S is factored. The ridge classifier has
// T = (S + M' N M + alpha I)^-1, M the means and N the classes' counts, and by Woodbury's
// identity A = T + T M' O M T with the classes x classes matrix O = (N^-1 - M T M')^-1. So
// X A M' and M A M' follow from the ridge classifier's fitted values X T X', and the weights
// from the ridge weights by mix.
//
// Fisher 1936; Friedman, "Regularized discriminant analysis", 1989; Hastie, Buja and
// Tibshirani, "Penalized discriminant analysis", 1995.
type discriminant struct {
	mix      dense.Matrix // columns x columns: weights = ridge weights * mix
	bias     []float64    // one per column
	tau      float64      // the scores' scale as log-likelihoods
	scores   dense.Matrix // of left-out samples, before tau: samples x classes
	loss     float64      // mean negative log-likelihood, leave-one-out
	accuracy float64      // leave-one-out
}

// projection holds the products for scores of the discriminant of one alpha.
type projection struct {
	n      float64      // training samples
	a      dense.Matrix // X T M', a row per left-out sample
	x      dense.Matrix // X A M'
	m      dense.Matrix // M A M'
	o      dense.Matrix // O N^-1
	failed error        // dense.ErrSingular: a sample or group determines its class's scatter
}

// project computes a projection from the ridge classifier's solution. Every class must have a
// sample. The error is dense.ErrSingular if alpha is too small for a result, or the context's
// error.
func project(ctx context.Context, s solution, y targets, counts []int) (*projection, error) {
	k := len(counts)
	p := &projection{n: float64(y.n), a: y.fittedMeans(s.residual, counts)}
	b := y.centerMeans(s.centers, p.a, counts) // M T M'
	o, err := within(ctx, b, counts)
	if err != nil {
		return nil, err
	}
	p.o = o
	p.x, p.m = dense.New(len(y.labels), k), dense.New(k, k)
	dense.Multiply(p.x, 1, p.a, false, p.o, false)
	dense.Multiply(p.m, 1, b, false, p.o, false)
	return p, nil
}

// leaveOneOut fills scores with the leave-one-out scores of every sample.
func (p *projection) leaveOneOut(scores dense.Matrix, rest []float64, labels, counts []int) error {
	for i, label := range labels {
		xAx := 1 - 1/p.n - rest[i] // X T X', the hat matrix's diagonal less the intercept's share
		for j, v := range p.x.Row(i) {
			xAx += v * float64(counts[j]) * p.a.Row(i)[j]
		}
		if err := withoutSample(scores.Row(i), p.x.Row(i), p.m, xAx, label, counts[label]); err != nil {
			return err
		}
	}
	return nil
}

// discriminant returns the discriminant of a projection with leave-one-out scores.
func (p *projection) discriminant(scores dense.Matrix, y targets, counts []int) (d discriminant) {
	d.scores = scores
	d.tau, d.loss = temper(scores, y.labels, nil, 0)
	d.accuracy = hits(scores, y.labels)
	d.fold(p.o, p.m, d.tau, counts, len(y.mean))
	return d
}

// fittedMeans returns X T M': the fitted values of the classes' indicators over the classes'
// counts.
func (y targets) fittedMeans(residual dense.Matrix, counts []int) dense.Matrix {
	a := dense.New(len(y.labels), len(counts))
	for i, label := range y.labels {
		for c, e := range residual.Row(i) {
			indicators(a.Row(i), c, (y.sign(label, c)-y.mean[c]-e)/2, counts, residual.Cols)
		}
	}
	return a
}

// indicators puts a column's fitted indicator, half the fitted target, into a
// row of classes.
func indicators(row []float64, column int, f float64, counts []int, columns int) {
	if columns == 1 {
		row[0], row[1] = -f/float64(counts[0]), f/float64(counts[1])
	} else {
		row[column] = f / float64(counts[column])
	}
}

// centerMeans returns M T M', from the targets fitted to the classes' means if known,
// otherwise as the mean over all samples of a class.
func (y targets) centerMeans(centers, a dense.Matrix, counts []int) dense.Matrix {
	b := dense.New(len(counts), len(counts))
	if centers.Rows > 0 {
		for l := range counts {
			for c, f := range centers.Row(l) {
				indicators(b.Row(l), c, f/2, counts, centers.Cols)
			}
		}
		return b
	}
	for i, label := range y.labels {
		for j, v := range a.Row(i) {
			b.Row(label)[j] += v / float64(counts[label])
		}
	}
	return b
}

// within returns O N^-1 = (N^-1 - b)^-1 N^-1, computed as N^1/2 (I - N^1/2 b N^1/2)^-1 N^-1/2:
// the matrix in the middle has its eigenvalues in (0, 1].
func within(ctx context.Context, b dense.Matrix, counts []int) (dense.Matrix, error) {
	k := len(counts)
	root := make([]float64, k)
	for j, c := range counts {
		root[j] = math.Sqrt(float64(c))
	}
	l, o := dense.New(k, k), dense.New(k, k)
	for i := range k {
		for j := range i + 1 {
			l.Row(i)[j] = -root[i] * root[j] * (b.Row(i)[j] + b.Row(j)[i]) / 2
		}
		l.Row(i)[i]++
		o.Row(i)[i] = 1
	}
	if err := dense.Cholesky(ctx, l); err != nil {
		return o, err
	}
	dense.SolveLower(l, o)
	dense.SolveLowerT(l, o)
	for i := range k {
		for j := range k {
			o.Row(i)[j] *= root[i] / root[j]
		}
	}
	return o, nil
}

// withoutSample fills scores with -1/2 the squared distances of a sample of the given class of
// n samples to the means, scatter and means of all other samples. x is the sample's row of X A
// M', m is M A M', xAx the sample's x' A x.
//
// With d = x - m_l, the scatter of the other samples is S - c d d', c = n / (n - 1), and the
// mean of the sample's class moves by c d; the inverse follows by Sherman and Morrison's
// formula. The only sample of a class is never right: without this sample the class is
// unknown.
func withoutSample(scores, x []float64, m dense.Matrix, xAx float64, label, n int) error {
	own := m.Row(label)
	mAm := own[label]
	dAd := xAx - 2*x[label] + mAm
	c := 0.0
	if n > 1 {
		c = float64(n) / float64(n-1)
	}
	rest := 1 - c*dAd
	if !(rest > least) {
		return fmt.Errorf("fit: a sample determines its class's scatter: %w", dense.ErrSingular)
	}
	dAm := x[label] - mAm // d' A m_l
	for j := range scores {
		dAu := dAd + dAm - (x[j] - own[j]) // u = x - m_j
		uAu := xAx - 2*x[j] + m.Row(j)[j]
		scores[j] = -(uAu + c*dAu*dAu/rest) / 2
	}
	if n > 1 {
		scores[label] = -c * c * dAd / rest / 2
	} else {
		scores[label] = math.Nextafter(slices.Min(scores), math.Inf(-1))
	}
	return nil
}

// fold sets mix and bias: scores of one column per class, or their difference if two classes
// share a column.
func (d *discriminant) fold(o, m dense.Matrix, tau float64, counts []int, columns int) {
	k := len(counts)
	// Ridge weights fit +1 and -1, twice the weights of the indicators; T M' is the
	// indicators' weights over the counts.
	entry := func(i, j int) float64 { return tau * o.Row(i)[j] / float64(counts[i]) / 2 }
	d.mix, d.bias = dense.New(columns, columns), make([]float64, columns)
	if columns == 1 {
		d.mix.Row(0)[0] = entry(1, 1) - entry(0, 1) - entry(1, 0) + entry(0, 0)
		d.bias[0] = -tau * (m.Row(1)[1] - m.Row(0)[0]) / 2
		return
	}
	for j := range k {
		for i := range k {
			d.mix.Row(i)[j] = entry(i, j)
		}
		d.bias[j] = -tau * m.Row(j)[j] / 2
	}
}

// hits returns the share of rows whose largest score, the first of equals, is the label's.
func hits(scores dense.Matrix, labels []int) float64 {
	right := 0
	for i, label := range labels {
		row := scores.Row(i)
		if slices.Index(row, slices.Max(row)) == label {
			right++
		}
	}
	return float64(right) / float64(len(labels))
}
