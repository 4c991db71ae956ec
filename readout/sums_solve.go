package readout

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// ErrClipped is that of sums where features are limited: the limits depend on all
// samples, so that those of a part cannot be added or removed.
var ErrClipped = errors.New("features that are limited have no sums, because the limits depend on all samples: keep the features")

// Kept are samples whose features are there. Those of a group stand next to each other.
type Kept struct {
	Features []float32 // row-major
	Labels   []int
	Groups   []int // nil: each by itself
}

// MostKept is how many samples of so many features are kept at most to choose alpha,
// where samples outnumber features.
func MostKept(features int) int { return keptValues / features }

// Solve is the readout of the samples in the sums. kept are some of them, by which
// alpha is chosen as a Learner does, each left out of all. The sums stay as they are.
// The readout is a Learner's of the same samples, but for the rounding of its sums. Of
// opt it does not read Groups and Memory, and it refuses ClassWeights.
func (s *Sums) Solve(ctx context.Context, classes []string, kept Kept, opt Options) (*Linear, Report, error) {
	fail := func(err error) (*Linear, Report, error) { return nil, Report{}, err }
	opt, err := opt.withDefaults()
	switch {
	case err != nil:
		return fail(err)
	case opt.Numbers != nil:
		return fail(errors.New("readout: sums of numbers, want classes"))
	case len(classes) != len(s.counts):
		return fail(fmt.Errorf("readout: sums of %d classes, and %d names", len(s.counts), len(classes)))
	case opt.ClassWeights != nil:
		return fail(errors.New("readout: class weights of sums: sums count all samples alike: keep the features, or take no weights"))
	case opt.scaling().clip() > 0:
		return fail(fmt.Errorf("readout: %w", ErrClipped))
	case s.Samples() <= s.features:
		return fail(fmt.Errorf("readout: sums of %d samples of %d features: want more samples than features, or the features", s.Samples(), s.features))
	}
	if err := opt.Soft.check(s.features); err != nil {
		return fail(err)
	}
	if err := checkCounts(s.counts, classes, false); err != nil {
		return fail(err)
	}
	if opt.steps() > 0 && len(kept.Labels) == 0 {
		return fail(errors.New("readout: sums without a sample that is kept: nothing to choose alpha by, give one alpha, and neither coverage, a largest error nor priors"))
	}
	if len(kept.Labels) > 0 {
		if err := checkSamples(kept.Features, kept.Labels, s.features, len(classes)); err != nil {
			return fail(err)
		}
	}
	groups, err := spans(kept.Groups, len(kept.Labels))
	if err != nil {
		return fail(err)
	}
	return job{classes: classes, labels: kept.Labels, groups: groups, opt: opt}.throughMoments(ctx, sums{all: s.moments(), kept: kept.Features})
}

// moments are the sums about the means of all samples, each rounded once.
func (s *Sums) moments() *moments {
	f, n := s.features, s.Samples()
	g := newMoments(f, len(s.counts))
	copy(g.counts, s.counts)
	g.shift = make([]float64, f)
	// With c near the mean, n samples, S their sum and O the sum of products,
	// the sum about c is O_ij - c_i S_j - S_i c_j + n c_i c_j = O_ij - c_i S_j + c_j (n c_i - S_i).
	centre, sum, rest := make([]fixed, f), make([]fixed, f), make([]fixed, f)
	for j := range f {
		for k := range s.counts {
			sum[j] = sum[j].plus(s.sum(k, j))
		}
		g.shift[j] = multiple(sum[j].float(-unit) / float64(n))
		centre[j] = fixedFloat(g.shift[j])
		rest[j] = centre[j].times(fixed{uint64(n)}).minus(sum[j])
		for k, c := range s.counts {
			g.sums.Row(k)[j] = s.sum(k, j).minus(centre[j].times(fixed{uint64(c)})).float(-unit)
		}
	}
	dense.Parallel((f+1)/2, 8, func(lo, hi int) {
		row := func(i int) {
			src, dst := s.outer[3*(i*(i+1)/2):], g.outer.Row(i)
			for j := range i + 1 {
				o := fixed{src[3*j], src[3*j+1], src[3*j+2]}
				dst[j] = o.minus(centre[i].times(sum[j])).plus(centre[j].times(rest[i])).float(-2 * unit)
			}
		}
		for i := lo; i < hi; i++ {
			row(i)
			if last := f - 1 - i; last != i {
				row(last)
			}
		}
	})
	return g
}

func (s *Sums) sum(class, j int) fixed {
	at := s.sums[3*(class*s.features+j):]
	return fixed{at[0], at[1], at[2]}
}

// multiple is the multiple of 2^-unit next to x.
func multiple(x float64) float64 {
	if math.Abs(x) >= 0x1p-11 {
		return x // has no digits below
	}
	return math.Ldexp(math.RoundToEven(math.Ldexp(x, unit)), -unit)
}

// fixedFloat is such a multiple in units of 2^-unit.
func fixedFloat(x float64) fixed {
	if math.Abs(x) < 0x1p-11 {
		return fixedOf(int64(math.Ldexp(x, unit)), 0)
	}
	digits, e := math.Frexp(x) // digits * 2^53 is an integer
	return fixedOf(int64(math.Ldexp(digits, 53)), uint(e-53+unit))
}
