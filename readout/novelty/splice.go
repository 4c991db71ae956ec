package novelty

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// A Splice writes the features of a sequence that is like a for a share of the time, and
// like b for the rest.
type Splice func(dst, a, b []float32, share float32)

// What was chosen on the simulated machine's seed 1 and on public sets
// (docs/measurements/novelty.md).
const (
	spliceRidge    = 1  // penalty of the regression, in mean squares of a vector
	spliceStrength = .5 // of a squared deviation, in deviations of the logarithm of residuals
	spliceReach    = 64 // squared deviations that count, at most
	spliceLeast    = 80 // sequences of each class: with fewer it costs more than it finds
	leastShare     = .2 // of a spliced sequence's one part
)

// spliced keeps the splice only where there are enough sequences of each class, and at least
// two classes in whatever is learnt from.
func (l *learner) spliced(subsets [][]int) {
	if l.opt.Splice == nil {
		return
	}
	counts := map[int]int{}
	for _, c := range l.opt.Classes {
		counts[c]++
	}
	for _, n := range counts {
		if n < spliceLeast {
			l.opt.Splice = nil
			return
		}
	}
	for _, rows := range subsets {
		rows = thinned(rows)
		if !slices.ContainsFunc(rows, func(r int) bool { return l.opt.Classes[r] != l.opt.Classes[rows[0]] }) {
			l.opt.Splice = nil
			return
		}
	}
}

// splices are the features of as many spliced sequences as there are rows, one of each row and
// one of another class. They depend on the rows alone.
func (l *learner) splices(rows []int) []float32 {
	byClass := slices.Clone(rows)
	slices.SortStableFunc(byClass, func(a, b int) int { return l.opt.Classes[a] - l.opt.Classes[b] })
	class := func(i int) int { return l.opt.Classes[byClass[i]] }
	x := make([]float32, len(rows)*l.f)
	r := rand.New(rand.NewPCG(2, 2))
	for i, start, end := 0, 0, 0; i < len(byClass); i++ {
		if i == end {
			for start = i; end < len(byClass) && class(end) == class(start); end++ {
			}
		}
		k := r.IntN(len(byClass) - (end - start))
		if k >= start {
			k += end - start
		}
		share := leastShare + (1-2*leastShare)*r.Float64()
		a, b := byClass[i], byClass[k]
		l.opt.Splice(x[i*l.f:(i+1)*l.f], l.x[a*l.f:(a+1)*l.f], l.x[b*l.f:(b+1)*l.f], float32(share))
	}
	return x
}

// between is the direction, of unit length, along which spliced sequences differ from whole
// ones: that of a ridge regression. z has the whole ones, centred and scaled; both is the
// kernel of these and the spliced ones, of which the lower triangle is set.
func (l *learner) between(ctx context.Context, z, joint dense.Samples, both dense.Matrix) (axis, products []float64, err error) {
	n, m := joint.Rows, z.Rows
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
		if i >= m {
			c.Row(i)[0] = 1
		}
	}
	for i := range n {
		a.Row(i)[i] += spliceRidge * trace / float64(n)
	}
	if err := dense.Cholesky(ctx, a); err != nil {
		return nil, nil, fmt.Errorf("novelty: spliced sequences: %w", err)
	}
	dense.SolveLower(a, c)
	dense.SolveLowerT(a, c) // as many whole as spliced ones: their sum is zero, and so is that of c
	products, squared := make([]float64, n), 0.
	for i := range n {
		for j := range n {
			products[i] += float64(full(i, j) * c.Row(j)[0])
		}
		squared += float64(products[i] * c.Row(i)[0])
	}
	if !(squared > 0) {
		return nil, nil, nil
	}
	length := math.Sqrt(squared)
	for i := range n {
		c.Row(i)[0] /= length
		products[i] /= length
	}
	w := dense.New(l.f, 1)
	dense.MultiplySamples(w, 1, joint, true, c)
	return w.Data, products[:m], nil
}

// along says how sequences like the training's lie along the direction of the splices.
type along struct {
	of             []float64 // each left-out sequence's product with it
	mean, strength float64   // what (of-mean)^2 strength is, is added to the logarithm of a residual
}

// newAlong is for logarithms of residuals that deviate by so much from what is usual.
func newAlong(of []float64, deviation float64) *along {
	mean, squares := 0., 0.
	for _, t := range of {
		mean += t / float64(len(of))
	}
	for _, t := range of {
		squares += float64((t - mean) * (t - mean))
	}
	variance := squares / float64(len(of))
	if !(variance > 1e-24*mean*mean) || !(deviation > 0) {
		return nil
	}
	return &along{of, mean, spliceStrength * deviation / variance}
}

// evidence is what is added for sequence i.
func (a *along) evidence(i int) float64 {
	if a == nil {
		return 0
	}
	d := a.of[i] - a.mean
	return a.strength * float64(d*d)
}
