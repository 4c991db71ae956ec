package fit

import (
	"context"
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/exact"
	"github.com/eusn-stream/eusn-stream/readout"
)

// ErrClipped reports sums of limited features: the limits depend on all samples, so the
// samples of a part cannot be added or removed.
var ErrClipped = errors.New("features that are limited have no sums, because the limits depend on all samples: keep the features")

// Kept are samples with features. Samples of a group are adjacent.
type Kept struct {
	Features []float32 // row-major
	Labels   []int
	Groups   []int // nil: each sample is a group
}

// MostKept returns the maximum number of samples kept to choose alpha, if samples outnumber
// features.
func MostKept(features int) int { return keptValues / features }

// SolveSums fits the readout of the samples in the sums. kept are some of the samples, used to
// choose alpha as in a Learner, each left out of all. The sums do not change. The readout
// equals a Learner's for the same samples, except for the rounding of the Learner's sums. Of
// opt SolveSums does not read Groups and Memory, and rejects ClassWeights.
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
