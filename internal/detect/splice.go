package detect

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// A Splice writes the features of a sequence that resembles a for a share of the time, and b
// for the rest.
type Splice func(dst, a, b []float32, share float32)

// Values chosen on the simulated machine's seed 1, and checked on seeds 2 and 3
// (docs/results.md).
const (
	spliceRidge    = .5  // penalty of the regression, in mean squares of a vector
	spliceStrength = .35 // per squared deviation, in deviations of the logarithm of residuals
	spliceReach    = 64  // limit of the squared deviations, all directions together
	spliceLeast    = 80  // sequences of each class: with fewer, splices cost more than they find
	leastShare     = .35 // of one part of a spliced sequence
	mostPaired     = 3   // classes at most for a direction per pair
)

// pairings returns the classes spliced with each other, for each direction: each pair if there
// are few classes, otherwise all together. None if a class has too few sequences, or if one of
// subsets lacks two classes of a pairing.
func (l *learner) pairings(subsets [][]int) (of [][]int) {
	if l.opt.Splice == nil {
		return nil
	}
	counts := map[int]int{}
	for _, c := range l.opt.Classes {
		counts[c]++
	}
	classes := slices.Sorted(maps.Keys(counts))
	if slices.ContainsFunc(classes, func(c int) bool { return counts[c] < spliceLeast }) {
		return nil
	}
	of = [][]int{classes}
	if len(classes) <= mostPaired {
		of = nil
		for i, a := range classes {
			for _, b := range classes[:i] {
				of = append(of, []int{b, a})
			}
		}
	}
	for _, rows := range subsets {
		rows = thinned(rows)
		for _, together := range of {
			some := l.among(rows, together)
			if len(some) == 0 || l.opt.Classes[some[0]] == l.opt.Classes[some[len(some)-1]] {
				return nil
			}
		}
	}
	return of
}

// among returns the rows of the given classes, sorted by class.
func (l *learner) among(rows, classes []int) (some []int) {
	for _, r := range rows {
		if slices.Contains(classes, l.opt.Classes[r]) {
			some = append(some, r)
		}
	}
	slices.SortStableFunc(some, func(a, b int) int { return l.opt.Classes[a] - l.opt.Classes[b] })
	return some
}

// splices fills dst with the features of spliced sequences, each from the next row in turn and
// a row of another class. The result depends only on the rows, which have several classes and
// are sorted by class.
func (l *learner) splices(dst []float32, rows []int) {
	class := func(i int) int { return l.opt.Classes[rows[i]] }
	r := rand.New(rand.NewPCG(2, 2))
	for i, start, end := 0, 0, 0; len(dst) > 0; i, dst = i+1, dst[l.f:] {
		if i == len(rows) {
			i, end = 0, 0
		}
		if i == end {
			for start = i; end < len(rows) && class(end) == class(start); end++ {
			}
		}
		k := r.IntN(len(rows) - (end - start))
		if k >= start {
			k += end - start
		}
		share := leastShare + (1-2*leastShare)*r.Float64()
		a, b := rows[i], rows[k]
		l.opt.Splice(dst[:l.f], l.x[a*l.f:(a+1)*l.f], l.x[b*l.f:(b+1)*l.f], float32(share))
	}
}

// between writes the direction, of unit length, from whole to spliced sequences: the weights
// of a ridge regression. joint has the whole sequences, then as many spliced sequences,
// centered and scaled. The direction is zero if there is no difference.
func (l *learner) between(ctx context.Context, axis dense.Matrix, joint dense.Samples) error {
	n := joint.Rows
	both := dense.New(n, n) // the lower triangle of the kernel
	dense.AddKernel(both, joint)
	full := func(i, j int) float64 { return both.Row(max(i, j))[min(i, j)] }
	mean, all := make([]float64, n), 0.
	for i := range n {
		for j := range n {
			mean[i] += full(i, j)
		}
		mean[i] /= float64(n)
		all += mean[i] / float64(n)
	}
	a, c, trace := dense.New(n, n), dense.New(n, 1), 0.
	for i := range n {
		for j := range i + 1 {
			a.Row(i)[j] = both.Row(i)[j] - mean[i] - mean[j] + all
		}
		trace += a.Row(i)[i]
		c.Row(i)[0] = -1
		if i >= n/2 {
			c.Row(i)[0] = 1
		}
	}
	for i := range n {
		a.Row(i)[i] += spliceRidge * trace / float64(n)
	}
	if err := dense.Cholesky(ctx, a); err != nil {
		return fmt.Errorf("detect: spliced sequences: %w", err)
	}
	dense.SolveLower(a, c)
	dense.SolveLowerT(a, c) // as many whole as spliced sequences: the target's sum is zero, and the sum of c
	squared := 0.
	for i := range n {
		for j := range n {
			squared += float64(float64(c.Row(i)[0]*full(i, j)) * c.Row(j)[0])
		}
	}
	if !(squared > 0) {
		return nil
	}
	dense.MultiplySamples(axis, 1/math.Sqrt(squared), joint, true, c)
	return nil
}

// along describes training sequences along the spliced directions.
type along struct {
	of             dense.Matrix // products of each left-out sequence with the directions
	mean, strength []float64    // the sum of strength times the square of of-mean is added to the logarithm of a residual
}

// newAlong takes the deviation of the logarithms of residuals from the usual value.
func newAlong(of dense.Matrix, deviation float64) along {
	a := along{of, make([]float64, of.Cols), make([]float64, of.Cols)}
	for k := range of.Cols {
		n, squares := float64(of.Rows), 0.
		for i := range of.Rows {
			a.mean[k] += of.Row(i)[k] / n
		}
		for i := range of.Rows {
			d := of.Row(i)[k] - a.mean[k]
			squares += float64(d * d)
		}
		if variance := squares / n; variance > 1e-24*a.mean[k]*a.mean[k] {
			a.strength[k] = spliceStrength * deviation / variance
		}
	}
	return a
}

// evidence returns the sum to add for sequence i.
func (a *along) evidence(i int) (sum float64) {
	for k, t := range a.of.Row(i) {
		d := t - a.mean[k]
		sum += float64(a.strength[k] * float64(d*d))
	}
	return sum
}
