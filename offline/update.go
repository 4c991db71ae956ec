package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/exact"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// knownBlock is how many features are handed on at a time.
const knownBlock = 8 << 20

// update is bridge.Update.
func update(ctx context.Context, m *reservoir.Model, k bridge.Sequences, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	opt.adaptive = k.Adaptive
	if k.Sums != nil {
		return updateFromSums(ctx, m, k, opt, progress)
	}
	fail := func(err error) (*reservoir.Model, RetrainReport, error) { return nil, RetrainReport{}, err }
	opt.Spec, opt.Policy = m.Network.Spec, m.Policy
	opt = opt.withDefaults(len(m.Channels))
	t, err := newUpdate(m, k, opt)
	if err != nil {
		return fail(err)
	}
	l, err := t.learner(0, len(k.Sequences))
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	if opt.Planned != nil {
		opt.Planned(t.report)
	}
	cast := newForecast(progress, l.Plan(), int64(l.Plan().Passes*len(k.Sequences)), len(k.Sequences))
	if l.Plan().Passes > 1 {
		if err := eachFeatures(ctx, k, opt.Spec.FeatureCount(), cast, l.Measure); err != nil {
			return fail(err)
		}
		cast.passed()
	}
	if err := eachFeatures(ctx, k, opt.Spec.FeatureCount(), cast, l.Add); err != nil {
		return fail(err)
	}
	next, err := t.finish(ctx, l, cast)
	if err != nil {
		return fail(err)
	}
	if err := t.adapt(next.Readouts[0], k, nil); err != nil {
		return fail(err)
	}
	return next, t.report, nil
}

// adapt lets labels move the thresholds of sets. kept are the left-out sequences, if these differ from the report's.
func (t *training) adapt(linear *readout.Linear, k bridge.Sequences, kept []int) error {
	left := t.report.Readout.Left
	if t.opt.adaptive == 0 {
		return nil
	}
	if linear.Coverage == nil {
		return fmt.Errorf("offline: %s: an adaptive coverage, and no coverage: want both", k.Name)
	}
	if kept == nil {
		kept = left.Samples
	}
	labels, order, of := make([]int, left.Scores.Rows), make([]int, left.Scores.Rows), func(row int) int { return row }
	if kept != nil {
		of = func(row int) int { return kept[row] }
	}
	for row := range labels {
		labels[row], order[row] = k.Sequences[of(row)].Class, row
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(k.Sequences[of(x)].Labeled, k.Sequences[of(y)].Labeled), cmp.Compare(of(x), of(y)))
	})
	c, r, err := fit.AdaptCoverage(linear.Coverage, t.opt.adaptive, linear.Temperature, left.Scores, labels, order)
	if err != nil {
		return fmt.Errorf("offline: %s: %w", k.Name, err)
	}
	linear.Coverage, t.report.Readout.Adaptive = c, r
	return nil
}

// eachFeatures hands on all features, some sequences at a time.
func eachFeatures(ctx context.Context, k bridge.Sequences, features int, cast *forecast, take func([]float32) error) error {
	some := max(1, min(collectBlock, knownBlock/features))
	block := make([]float32, 0, min(some, len(k.Sequences))*features)
	for i := range k.Sequences {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		block = block[:len(block)+features]
		if err := k.Features(i, block[len(block)-features:]); err != nil {
			return err
		}
		if i+1 < len(k.Sequences) && len(block) < some*features {
			continue
		}
		if err := take(block); err != nil {
			return fmt.Errorf("offline: %s: %w", k.Name, err)
		}
		block = block[:0]
		cast.ran(int64(i + 1))
	}
	return nil
}

// newUpdate is a training with a given network and known examples.
func newUpdate(m *reservoir.Model, k bridge.Sequences, opt RetrainOptions) (*training, error) {
	for _, h := range m.Readouts {
		if h.Interval != nil {
			return nil, fmt.Errorf("offline: %s: the model predicts numbers (%s), and labels are classes: train again with train --target", k.Name, h.Classes[0])
		}
	}
	if len(k.Sequences) == 0 {
		return nil, fmt.Errorf("offline: %s: no sequence to learn from", k.Name)
	}
	if len(k.Classes) == 0 {
		return nil, fmt.Errorf("offline: %s: no class to learn", k.Name)
	}
	src := labeledData{
		what: k.Name, name: k.Name, channels: m.Channels, classes: k.Classes,
		fingerprint: func() string { return k.Fingerprint },
	}
	if err := checkTraining(src, opt); err != nil {
		return nil, err
	}
	pl := &plan{cutter: &cutter{Tracker: track.NewTracker(track.Rules{Policy: m.Policy, Channels: len(m.Channels)}), points: len(k.Sequences), counts: counts{streams: k.Streams}}}
	for i, s := range k.Sequences {
		if i > 0 && s.Group < k.Sequences[i-1].Group {
			return nil, fmt.Errorf("offline: %s: sequence %d is of group %d, behind one of group %d: want groups in order", k.Name, i, s.Group, k.Sequences[i-1].Group)
		}
		if pl.shortest == 0 || s.Samples < pl.shortest {
			pl.shortest = s.Samples
		}
		pl.farthest = max(pl.farthest, s.Samples)
		pl.counts.samples += s.Samples
		pl.examples = append(pl.examples, example{arrival: i, point: i, label: s.Class, group: s.Group, length: s.Rows})
	}
	t := &training{src: src, opt: opt, plan: pl, net: m.Network, front: m.Front, inputs: slices.Clone(m.Training.Inputs), report: pl.report(k.Name)}
	if opt.Spec.Kind == reservoir.Mixed {
		t.report.MedianLength = pl.medianLength()
	}
	t.examples = pl.trainingOrder(k.Classes, false)
	t.report.Groups, t.report.Divided = t.examples.count, t.examples.divided
	t.report.Sampling = Sampling{m.Training.Rate, m.Training.LongestInterval}
	return t, nil
}

// updateFromSums is update if the features of most sequences are gone.
func updateFromSums(ctx context.Context, m *reservoir.Model, k bridge.Sequences, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	fail := func(err error) (*reservoir.Model, RetrainReport, error) { return nil, RetrainReport{}, err }
	if err := bridge.CheckSums(m); err != nil {
		return fail(err)
	}
	if opt.Weights.given() {
		return fail(fmt.Errorf("offline: %s: sums of features, and class weights: sums count all sequences alike: learn from the features of all, or without weights", k.Name))
	}
	opt.Spec, opt.Policy = m.Network.Spec, m.Policy
	opt = opt.withDefaults(len(m.Channels))
	t, err := newUpdate(m, k, opt)
	if err != nil {
		return fail(err)
	}
	if k.Sums.Samples() != len(k.Sequences) {
		return fail(fmt.Errorf("offline: %s: sums of %d sequences, want those of %d", k.Name, k.Sums.Samples(), len(k.Sequences)))
	}
	f := opt.Spec.FeatureCount()
	o := t.readout(nil, 0)
	t.report.Plan = fit.NewPlan(f, len(k.Classes), len(k.Sequences), o)
	if need := t.report.Plan.Solving + exact.SumsBytes(f, len(k.Classes)); need > cmp.Or(opt.Memory, DefaultMemory) {
		return fail(fmt.Errorf("offline: %s: %w: sums of %d features need %s", k.Name, fit.ErrMemory, f, fit.Size(need)))
	}
	kept := fit.Kept{Features: make([]float32, len(k.Kept)*f)}
	for n, i := range k.Kept {
		if err := k.Features(i, kept.Features[n*f:(n+1)*f]); err != nil {
			return fail(err)
		}
		kept.Labels = append(kept.Labels, t.examples.labels[i])
		kept.Groups = append(kept.Groups, t.examples.groups[i])
	}
	start := time.Now()
	cast := newForecast(progress, t.report.Plan, 0, 0)
	o.Progress = cast.solving
	linear, fit, err := fit.SolveSums(ctx, k.Sums, k.Classes, kept, o)
	if err != nil {
		return fail(fmt.Errorf("offline: %s: %w", k.Name, err))
	}
	t.report.FitSeconds = time.Since(start).Seconds()
	next, err := t.model(linear, fit)
	if err == nil {
		err = t.adapt(linear, k, k.Kept)
	}
	return next, t.report, err
}
