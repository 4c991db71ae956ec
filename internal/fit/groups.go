package fit

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// block is a group's part of I - H, with H the hat matrix including the intercept's share.
// whole is the initial diagonal; values small relative to whole are rounding.
type block struct {
	span
	left  dense.Matrix
	whole []float64
	wide  *wide // of a group of more samples than features, instead of left and whole
}

// sweep visits the blocks of all groups, in order.
type sweep func(ctx context.Context, visit func(block) error) error

// least is the smallest share of a pivot that may remain after elimination: below least, a
// sample or a group determines its own prediction.
const least = 1e-10

// definite factors a symmetric block in place. The error is dense.ErrSingular if a pivot is
// rounding of whole.
func definite(ctx context.Context, l dense.Matrix, whole []float64) error {
	if err := dense.Cholesky(ctx, l); err != nil {
		return err
	}
	for i := range l.Rows {
		if p := l.Row(i)[i]; p*p < least*whole[i] {
			return dense.ErrSingular
		}
	}
	return nil
}

// leave turns a group's residuals into residuals of the readout fitted to all other groups: (I
// - H_gg)^-1 e_g. The result is not a number if the group determines its own predictions.
func (b block) leave(ctx context.Context, residual dense.Matrix) error {
	solve := b.solve
	if b.wide != nil {
		solve = b.wide.solve
	}
	err := solve(ctx, residual)
	if errors.Is(err, dense.ErrSingular) {
		for i := range residual.Rows {
			for c := range residual.Row(i) {
				residual.Row(i)[c] = math.NaN()
			}
		}
		return nil
	}
	return err
}

func (b block) solve(ctx context.Context, residual dense.Matrix) error {
	l := b.left.Clone()
	if err := definite(ctx, l, b.whole); err != nil {
		return err
	}
	dense.SolveLower(l, residual)
	dense.SolveLowerT(l, residual)
	return nil
}

// countLabels counts the samples of each of k classes.
func countLabels(labels []int, k int) []int {
	n := make([]int, k)
	for _, l := range labels {
		n[l]++
	}
	return n
}

// invertScatter replaces D A D' in s by Q^-1 - D A D', in the terms of withoutGroup. rest
// returns the number of samples of a class in other groups.
func invertScatter(s dense.Matrix, labels, counts []int, rest func(class int) float64) {
	for i, li := range labels {
		for j, lj := range labels {
			v := -s.Row(i)[j]
			if li == lj && rest(li) > 0 {
				v -= 1 / float64(counts[li])
			}
			if i == j {
				v++
			}
			s.Row(i)[j] = v
		}
	}
}

// withoutGroup fills scores, one row per sample of the group, with -1/2 the squared distances
// to the classes' means, with scatter and means of all other groups.
//
// With d_i = x_i - m_l(i), removing q of the n samples of a class takes
//
//	D' Q D,   Q = I + 11' / (n - q)
//
// from its scatter and moves its mean by -sum(d_i) / (n - q); so the inverse is A + A D' (Q^-1
// - D A D')^-1 D A with Q^-1 = I - 11' / n, class by class, a matrix of the group's size. A
// class without a sample in other groups is never right: without the group the class is
// unknown; its d_i sum to zero, and Q is I.
func (p *projection) withoutGroup(ctx context.Context, b block, labels []int, counts []int, scores dense.Matrix) error {
	q, k := b.size(), len(counts)
	labels = labels[b.from:b.to]
	if b.wide != nil {
		return b.wide.scores(ctx, labels, counts, scores)
	}
	x := p.x.Sub(b.from, 0, q, k)
	xAx := p.within(b, counts)
	inGroup := countLabels(labels, k)
	rest := func(l int) float64 { return float64(counts[l] - inGroup[l]) }

	// Products d'A of the samples' d with the samples x, with the classes' new means, and with
	// each other.
	dx, dm, s := dense.New(q, q), dense.New(q, k), dense.New(q, q)
	whole := make([]float64, q)
	for i, li := range labels {
		for j := range q {
			dx.Row(i)[j] = xAx.Row(i)[j] - x.Row(j)[li]
		}
		for j := range k {
			dm.Row(i)[j] = x.Row(i)[j] - p.m.Row(li)[j]
		}
		for j, lj := range labels {
			s.Row(i)[j] = dx.Row(i)[j] - dm.Row(i)[lj] // d_i' A d_j
		}
		whole[i] = 1
	}
	mAm, xm := make([]float64, k), x.Clone() // of each new mean with itself, and with the samples
	for j := range k {
		mAm[j] = p.m.Row(j)[j]
	}
	moved := dm.Clone()
	for a, l := range labels {
		if rest(l) == 0 {
			continue
		}
		mAm[l] -= 2 * dm.Row(a)[l] / rest(l)
		for i := range q {
			moved.Row(i)[l] -= s.Row(i)[a] / rest(l)
			xm.Row(i)[l] -= dx.Row(a)[i] / rest(l)
			if labels[i] == l {
				mAm[l] += s.Row(i)[a] / rest(l) / rest(l)
			}
		}
	}
	invertScatter(s, labels, counts, rest)
	if err := definite(ctx, s, whole); err != nil {
		return err
	}
	dense.SolveLower(s, dx)
	dense.SolveLower(s, moved)
	for i := range q {
		row := scores.Row(i)
		for j := range k {
			d := xAx.Row(i)[i] - 2*xm.Row(i)[j] + mAm[j]
			for a := range q {
				h := dx.Row(a)[i] - moved.Row(a)[j]
				d += h * h
			}
			row[j] = -d / 2
		}
		unknown(row, counts, inGroup)
	}
	return nil
}

// unknown scores classes that have no sample outside the group below all others.
func unknown(row []float64, counts, inGroup []int) {
	lowest := slices.Min(row)
	for j := range row {
		if inGroup[j] > 0 && inGroup[j] == counts[j] {
			row[j] = math.Nextafter(lowest, math.Inf(-1))
		}
	}
}

// within returns X A X' of a group's samples, from their block of I - H = I - 11'/n - X T X'
// and A = T + T M' O M T.
func (p *projection) within(b block, counts []int) dense.Matrix {
	q := b.size()
	r := dense.New(q, q)
	for i := range q {
		for j := range i + 1 {
			v := -1/p.n - b.left.Row(i)[j]
			if i == j {
				v++
			}
			for c, xc := range p.x.Row(b.from + i) {
				v += xc * float64(counts[c]) * p.a.Row(b.from + j)[c]
			}
			r.Row(i)[j], r.Row(j)[i] = v, v
		}
	}
	return r
}
