package fit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// panel is the number of samples (or features) in one matrix product: large enough to keep the
// product busy, small enough that a canceled fit ends soon and that the float64 copy of a
// panel of 10,000 features stays in the tens of megabytes. A multiple of the product's own
// block, so that no block is cut short.
const panel = 4 * dense.Block

// moments are the samples per class, each class's sum, and the sum of outer products: all data
// for a ridge classifier of any alpha. Two moments add up.
//
// Moments are float64 and relative to the mean of the first added samples. Relative to zero,
// the centered moments would be the small difference of two large sums if a feature's mean is
// large compared with its deviation, and the matrix could lose its positive definiteness;
// float32 sums lose it on ordinary reservoir states.
type moments struct {
	counts  []int
	weights []float64    // of the classes; nil: all 1. Used in outer, not in counts and sums
	shift   []float64    // nil before the first sample
	sums    dense.Matrix // classes x features, of x - shift
	outer   dense.Matrix // features x features, lower triangle, of (x-shift)(x-shift)'
	cross   []float64    // of a regression: features, of (x-shift) times the centered number; nil: classes
}

func newMoments(features, classes int) *moments {
	return &moments{counts: make([]int, classes), sums: dense.New(classes, features), outer: dense.New(features, features)}
}

func (g *moments) features() int { return g.sums.Cols }

// count is the number of samples added.
func (g *moments) count() int {
	n := 0
	for _, c := range g.counts {
		n += c
	}
	return n
}

// add takes len(labels) samples, features being their row-major matrix. Whole panels are
// cheapest; equal panels give equal bits.
func (g *moments) add(features []float32, labels []int) {
	f := g.features()
	if len(labels) == 0 {
		return
	}
	if g.shift == nil {
		g.shift = make([]float64, f)
		for i := range labels {
			for j, x := range features[i*f : (i+1)*f] {
				g.shift[j] += float64(x)
			}
		}
		for j := range g.shift {
			g.shift[j] /= float64(len(labels))
		}
	}
	if scale := make([]float64, f); g.weights == nil {
		floats.AddConst(1, scale)
		dense.AddGram(g.outer, dense.Samples{Rows: len(labels), Cols: f, X: features, Stride: f, Center: g.shift, Scale: scale})
	} else {
		eachWeight(features, labels, g.weights, func(w float64, some []float32) {
			for j := range scale {
				scale[j] = math.Sqrt(w)
			}
			dense.AddGram(g.outer, dense.Samples{Rows: len(some) / f, Cols: f, X: some, Stride: f, Center: g.shift, Scale: scale})
		})
	}
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
}

// addNumbers takes the centered numbers of samples already added by add.
func (g *moments) addNumbers(features []float32, numbers []float64) {
	f := g.features()
	if g.cross == nil {
		g.cross = make([]float64, f)
	}
	dense.Parallel(f, 256, func(lo, hi int) {
		shift, cross := g.shift[lo:hi], g.cross[lo:hi]
		for i, y := range numbers {
			for j, x := range features[i*f+lo : i*f+hi] {
				cross[j] += float64((float64(x) - shift[j]) * y)
			}
		}
	})
}

// merge adds other's samples. next returns the rows of other's outer, i+1 values each, in
// order; a row is only read until the next call.
func (g *moments) merge(other *moments, next func(i int) ([]float64, error)) error {
	if other.shift == nil {
		return nil
	}
	if g.shift == nil {
		g.shift = slices.Clone(other.shift)
	}
	// x - a = (x - b) + d with d = b - a, for other's samples about g's shift.
	d := slices.Clone(other.shift)
	floats.Sub(d, g.shift)
	n, sum := total(other.counts, other.weights), other.sum()
	for i := range g.outer.Rows {
		src, err := next(i)
		if err != nil {
			return err
		}
		dst := g.outer.Row(i)[:i+1]
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

// sum returns the sum of x - shift over all classes, times their weights.
func (g *moments) sum() []float64 {
	s := make([]float64, g.features())
	for k := range g.sums.Rows {
		floats.AddScaled(s, weightAt(g.weights, k), g.sums.Row(k))
	}
	return s
}

// center converts moments about the shift into moments about the mean, in the solver's space:
// the Gram matrix replaces outer (lower triangle), and cross is its product with the targets.
// The moments are consumed. raw is the space of the features before clipping, whose scales
// stay; nil: not clipped.
func (g *moments) center(o scaling, raw *space) (s space, gram, cross dense.Matrix) {
	f, n, sum := g.features(), total(g.counts, g.weights), g.sum()
	gram = g.outer
	mean, variance := make([]float64, f), make([]float64, f)
	dense.Parallel(f, 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			floats.AddScaled(gram.Row(i)[:i+1], -sum[i]/n, sum[:i+1])
			mean[i] = g.shift[i] + sum[i]/n
			variance[i] = max(0, gram.Row(i)[i]/n)
		}
	})
	if raw != nil {
		s = space{mean, raw.scale, raw.clip}
	} else {
		s = newSpace(mean, variance, o)
	}
	dense.Parallel(f, 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			floats.Mul(gram.Row(i)[:i+1], s.scale[:i+1])
			floats.Scale(s.scale[i], gram.Row(i)[:i+1])
		}
	})
	if g.cross != nil { // numbers are centered, so that their sum with the shift is zero
		cross = dense.New(f, 1)
		for j, v := range g.cross {
			cross.Row(j)[0] = v * s.scale[j]
		}
		return s, gram, cross
	}
	// The sum of x*y over the samples, x and y centered, y = +1 in class k and -1 elsewhere,
	// is twice the excess of class k's sum over its share, both with weights.
	cross = dense.New(f, columnsFor(len(g.counts)))
	for c := range cross.Cols {
		k := c
		if cross.Cols == 1 {
			k = 1
		}
		w := weightAt(g.weights, k)
		for j := range f {
			cross.Row(j)[c] = 2 * (w*g.sums.Row(k)[j] - sum[j]*(w*float64(g.counts[k]))/n) * s.scale[j]
		}
	}
	return s, gram, cross
}

// means returns the classes' means in the solver's space, classes x features; zero for a class
// without a sample.
func (g *moments) means(s space) dense.Matrix {
	m := dense.New(g.sums.Rows, g.features())
	for k, c := range g.counts {
		if c == 0 {
			continue
		}
		for j, v := range g.sums.Row(k) {
			m.Row(k)[j] = (v/float64(c) + g.shift[j] - s.mean[j]) * s.scale[j]
		}
	}
	return m
}
