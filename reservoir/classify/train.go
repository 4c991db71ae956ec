package classify

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Train makes a classifier from labeled series in memory. Train draws the
// network of the recipe, computes the constants of the input transform from all
// samples, runs every series through the network, and learns a readout from the
// features at the ends. Leave-one-out on these series chooses regularization and
// kind of readout. DefaultBank is a recipe without a search.
//
// Series are as for Features, with a label each. The model's classes are the labels
// in ascending order, its channels c0, c1, ..., its policy is Marked. The same
// series give the same model on any number of CPUs, bit for bit.
//
// Up to FeatureCount series all features are held in memory, 4 bytes each, and
// as many numbers of 16 bytes as the square of the series. offline.Retrain makes
// the same model from an archive, within a memory bound, and for other policies,
// or with a front end.
func Train(ctx context.Context, spec reservoir.Spec, series [][]float32, labels []string) (*reservoir.Model, error) {
	lengths := make([]int, len(series))
	for i, s := range series {
		lengths[i] = len(s) / max(1, spec.Channels)
	}
	median := sequence.MedianLength(lengths)
	net, err := reservoir.Draw(spec.ForLength(median))
	if err != nil {
		return nil, err
	}
	if len(labels) != len(series) {
		return nil, fmt.Errorf("reservoir: train: want a label for each of %d series, got %d", len(series), len(labels))
	}
	if err := checkSeries(series, net.Spec.Channels); err != nil {
		return nil, err
	}
	m := &reservoir.Model{Network: net, Policy: reservoir.Policy{Kind: reservoir.Marked}, Training: reservoir.Training{Series: len(series)}}
	for c := range net.Spec.Channels {
		m.Channels = append(m.Channels, "c"+strconv.Itoa(c))
	}
	seen := reservoir.NewInputStatistics(net.Spec.Channels)
	for i, s := range series {
		seen.Series().Add(s)
		countSequence(&m.Training, len(s)/net.Spec.Channels, i == 0)
	}
	net.Norm, m.Training.Inputs = seen.Norm(net.Spec), seen.Ranges()

	linear, report, err := learn(ctx, net, series, labels, median)
	if err != nil {
		return nil, err
	}
	linear.Name, m.Readouts, m.Training.Alpha = "default", []*readout.Linear{linear}, report.String()
	return m, m.Validate()
}

// countSequence adds a sequence of the given samples.
func countSequence(t *reservoir.Training, samples int, first bool) {
	if first {
		t.MinLength = samples
	}
	t.Samples += int64(samples)
	t.MinLength, t.MaxLength = min(t.MinLength, samples), max(t.MaxLength, samples)
}

// learn is the readout of the series' features.
func learn(ctx context.Context, net *reservoir.Network, series [][]float32, labels []string, median int) (*readout.Linear, fit.Report, error) {
	classes := slices.Compact(slices.Sorted(slices.Values(labels)))
	numbers := make([]int, len(labels))
	for i, label := range labels {
		numbers[i], _ = slices.BinarySearch(classes, label)
	}
	opt := fit.Options{Standardize: true, Soft: fit.NewSoft(net.Spec.SoftScaling(median)), Discriminant: true}
	l, err := fit.NewLearner(net.Spec.FeatureCount(), classes, numbers, opt)
	if err != nil {
		return nil, fit.Report{}, err
	}
	defer l.Close()
	if l.Plan().Passes > 1 {
		if err := eachBlock(ctx, net, series, l.Measure); err != nil {
			return nil, fit.Report{}, err
		}
	}
	if err := eachBlock(ctx, net, series, l.Add); err != nil {
		return nil, fit.Report{}, err
	}
	return l.Solve(ctx, opt)
}
