package fit

import (
	"context"
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/exact"
	"github.com/eusn-stream/eusn-stream/readout"
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

// SolveSums fits the readout of the samples in the sums. kept are some of them, by which
// alpha is chosen as a Learner does, each left out of all. The sums stay as they are.
// The readout is a Learner's of the same samples, but for the rounding of its sums. Of
// opt it does not read Groups and Memory, and it refuses ClassWeights.
func SolveSums(ctx context.Context, s *exact.Sums, classes []string, kept Kept, opt Options) (*readout.Linear, Report, error) {
	fail := func(err error) (*readout.Linear, Report, error) { return nil, Report{}, err }
	f, counts := s.Features(), s.Counts()
	opt, err := opt.withDefaults()
	switch {
	case err != nil:
		return fail(err)
	case opt.Numbers != nil:
		return fail(errors.New("fit: sums of numbers, want classes"))
	case len(classes) != len(counts):
		return fail(fmt.Errorf("fit: sums of %d classes, and %d names", len(counts), len(classes)))
	case opt.ClassWeights != nil:
		return fail(errors.New("fit: class weights of sums: sums count all samples alike: keep the features, or take no weights"))
	case opt.scaling().clip() > 0:
		return fail(fmt.Errorf("fit: %w", ErrClipped))
	case s.Samples() <= f:
		return fail(fmt.Errorf("fit: sums of %d samples of %d features: want more samples than features, or the features", s.Samples(), f))
	}
	if err := opt.Soft.check(f); err != nil {
		return fail(err)
	}
	if err := checkCounts(counts, classes, false); err != nil {
		return fail(err)
	}
	if opt.steps() > 0 && len(kept.Labels) == 0 {
		return fail(errors.New("fit: sums without a sample that is kept: nothing to choose alpha by, give one alpha, and neither coverage, a largest error nor priors"))
	}
	if len(kept.Labels) > 0 {
		if err := checkSamples(kept.Features, kept.Labels, f, len(classes)); err != nil {
			return fail(err)
		}
	}
	groups, err := spans(kept.Groups, len(kept.Labels))
	if err != nil {
		return fail(err)
	}
	return job{classes: classes, labels: kept.Labels, groups: groups, opt: opt}.throughMoments(ctx, sums{all: momentsFromSums(s), kept: kept.Features})
}

// momentsFromSums returns the sums rounded to moments.
func momentsFromSums(s *exact.Sums) *moments {
	g := &moments{counts: s.Counts()}
	g.shift, g.sums, g.outer = s.Moments()
	return g
}
