package offline

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/exact"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// SumsFit reports whether a model's readout can be trained on sums: no features may be clipped by limits from all
// sequences.
func SumsFit(m *reservoir.Model) error {
	if _, _, clip := m.Network.Spec.SoftScaling(1); clip > 0 {
		return fmt.Errorf("offline: a network of kind %s: %w", m.Network.Spec.Kind, fit.ErrClipped)
	}
	return nil
}

// MostKept is how many sequences a Learner keeps at most to choose the regularisation.
func MostKept(m *reservoir.Model) int { return fit.MostKept(m.Network.Spec.FeatureCount()) }

// updateFromSums is Update if the features of most sequences are gone.
func updateFromSums(ctx context.Context, m *reservoir.Model, k LabeledSequences, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	fail := func(err error) (*reservoir.Model, RetrainReport, error) { return nil, RetrainReport{}, err }
	if err := SumsFit(m); err != nil {
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
