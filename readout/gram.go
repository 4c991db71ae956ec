package readout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// panel is how many samples (or features) enter one matrix product: enough to
// keep the product busy, few enough that a cancelled fit ends soon and
// that what is float64 for a panel of 10,000 features stays in the tens of
// megabytes. A multiple of the product's own block, so that none is cut short.
const panel = 4 * dense.Block

// Gram holds the moments of labelled feature vectors: the samples per class,
// each class's sum, and the sum of outer products. It is all a ridge
// classifier needs, whatever its alpha, and two of them add up.
//
// Moments are float64 and taken about the first sample seen. About zero, the
// centred moments would be the small difference of two large sums wherever a
// feature's mean is large beside its deviation, and the matrix could lose its
// positive definiteness; float32 sums lose it on ordinary reservoir states.
//
// Memory: (features + classes) * features * 8 bytes. Not safe for concurrent
// use.
type Gram struct {
	classes []string
	counts  []int
	shift   []float64    // the first sample; nil before it
	sums    dense.Matrix // classes x features, of x - shift
	outer   dense.Matrix // features x features, lower triangle, of (x-shift)(x-shift)'
}

// NewGram makes an empty Gram for feature vectors of the given length and at
// least two classes.
func NewGram(features int, classes []string) (*Gram, error) {
	if features < 1 || len(classes) < 2 {
		return nil, fmt.Errorf("readout: gram of %d features and %d classes, want at least 1 and 2", features, len(classes))
	}
	return &Gram{
		classes: slices.Clone(classes),
		counts:  make([]int, len(classes)),
		sums:    dense.New(len(classes), features),
		outer:   dense.New(features, features),
	}, nil
}

// Features is the length of a feature vector.
func (g *Gram) Features() int { return g.outer.Rows }

// Count is the number of samples added.
func (g *Gram) Count() int {
	n := 0
	for _, c := range g.counts {
		n += c
	}
	return n
}

// Add takes len(labels) samples, features being their row-major matrix.
// Samples are cheapest by the hundred. On an error nothing has been added.
func (g *Gram) Add(features []float32, labels []int) error {
	f := g.Features()
	if err := checkSamples(features, labels, f, len(g.classes)); err != nil {
		return err
	}
	if len(labels) == 0 {
		return nil
	}
	if g.shift == nil {
		g.shift = make([]float64, f)
		for j, x := range features[:f] {
			g.shift[j] = float64(x)
		}
	}
	ones := make([]float64, f)
	floats.AddConst(1, ones)
	t := table{space{g.shift, ones}, features, len(labels)}
	dense.AddGram(g.outer, t.samples())
	dense.Parallel(f, 256, func(lo, hi int) {
		shift := g.shift[lo:hi]
		for i, l := range labels {
			sum := g.sums.Row(l)[lo:hi]
			for j, x := range features[i*f+lo : i*f+hi] {
				sum[j] += float64(x) - shift[j]
			}
		}
	})
	for _, l := range labels {
		g.counts[l]++
	}
	return nil
}

// Merge adds other's samples to g; other stays as it is. Both must have the
// same classes in the same order and the same number of features.
func (g *Gram) Merge(other *Gram) error {
	if !slices.Equal(g.classes, other.classes) {
		return fmt.Errorf("readout: merging Grams of different classes: %q and %q", g.classes, other.classes)
	}
	if g.Features() != other.Features() {
		return fmt.Errorf("readout: merging Grams of %d and %d features", g.Features(), other.Features())
	}
	if other.shift == nil {
		return nil
	}
	if g.shift == nil {
		g.shift = slices.Clone(other.shift)
	}
	// x - a = (x - b) + d with d = b - a, for other's samples about g's shift.
	d := slices.Clone(other.shift)
	floats.Sub(d, g.shift)
	n, sum := float64(other.Count()), other.sum()
	for i := range g.outer.Rows {
		dst, src := g.outer.Row(i)[:i+1], other.outer.Row(i)[:i+1]
		for j := range dst {
			dst[j] += src[j] + sum[i]*d[j] + d[i]*sum[j] + n*d[i]*d[j]
		}
	}
	for k, c := range other.counts {
		floats.Add(g.sums.Row(k), other.sums.Row(k))
		floats.AddScaled(g.sums.Row(k), float64(c), d)
		g.counts[k] += c
	}
	return nil
}

// sum is the sum of x - shift over all classes.
func (g *Gram) sum() []float64 {
	s := make([]float64, g.Features())
	for k := range g.sums.Rows {
		floats.Add(s, g.sums.Row(k))
	}
	return s
}

// Solve returns one head per alpha, in order, at one factorisation each
// (features^3 / 3 operations, and a second matrix of the Gram's size).
// Standardised or not, the head reads raw features. alpha must be positive,
// or zero where the features are linearly independent.
func (g *Gram) Solve(ctx context.Context, alphas []float64, standardise bool) ([]*Linear, error) {
	if err := errors.Join(checkCounts(g.counts, g.classes), CheckAlphas(alphas)); err != nil {
		return nil, err
	}
	s, centred, cross := g.centre(standardise)
	yMean := targetMeans(g.counts)
	heads := make([]*Linear, len(alphas))
	for i, alpha := range alphas {
		l := centred.Clone()
		if err := factorRidge(ctx, l, alpha); err != nil {
			return nil, err
		}
		w := cross.Clone()
		dense.SolveLower(l, w)
		dense.SolveLowerT(l, w)
		head, err := newLinear(g.classes, s, w, yMean)
		if err != nil {
			return nil, err
		}
		heads[i] = head
	}
	return heads, nil
}

// centre turns moments about the shift into moments about the mean, in the
// solver's space: the Gram matrix (lower triangle) and its product with the
// targets.
func (g *Gram) centre(standardise bool) (s space, gram, cross dense.Matrix) {
	f, n, sum := g.Features(), float64(g.Count()), g.sum()
	gram = g.outer.Clone()
	mean, variance := make([]float64, f), make([]float64, f)
	for i := range f {
		floats.AddScaled(gram.Row(i)[:i+1], -sum[i]/n, sum[:i+1])
		mean[i] = g.shift[i] + sum[i]/n
		variance[i] = max(0, gram.Row(i)[i]/n)
	}
	s = newSpace(mean, variance, standardise)
	for i := range f {
		floats.Mul(gram.Row(i)[:i+1], s.scale[:i+1])
		floats.Scale(s.scale[i], gram.Row(i)[:i+1])
	}
	// The sum of x*y over the samples, x and y centred, y = +1 in class k and
	// -1 elsewhere, is twice what class k's sum has beyond its share.
	cross = dense.New(f, columnsFor(len(g.classes)))
	for c := range cross.Cols {
		k := c
		if cross.Cols == 1 {
			k = 1
		}
		for j := range f {
			cross.Row(j)[c] = 2 * (g.sums.Row(k)[j] - sum[j]*float64(g.counts[k])/n) * s.scale[j]
		}
	}
	return s, gram, cross
}
