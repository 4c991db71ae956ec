package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// SegmentOptions select a readout of the mean and the deviation of each channel in segments of the sequence
// (reservoir.Segments) instead of the network, for classes and the policy count. Leave-one-out chooses between the two.
// A model with segments has a network of one unit, unless a detector reads the network.
//
// The zero value is the default: segments are compared if each series or stream is one sequence. Then all sequences begin
// at the same point of a cycle.
type SegmentOptions struct {
	Count int // segments of a sequence, a divisor of its samples after the front end; 0: the divisor next to 12, 6 to 24

	// Always takes the segments. Otherwise the network remains unless leave-one-out is better by more than a standard
	// error, because only its readout can be exported, and trained by labels of a running job.
	Always bool
}

// The number of segments of a sequence that no option specifies.
const fewestSegments, defaultSegments, mostSegments = 6, 12, 24

// Without SegmentOptions.Always, segments are compared up to these numbers of statistics: of a sequence (a matrix of the
// solver has 32 MiB), and of all sequences (64 MiB).
const mostStatistics, mostAllStatistics = 1 << 11, 1 << 24

// SegmentReport describes the choice between segments and the network.
type SegmentReport struct {
	Segments reservoir.Segments `json:"segments"`
	Accuracy float64            `json:"accuracy,omitzero"`         // of leave-one-out; 0: not known
	Network  float64            `json:"network_accuracy,omitzero"` // of leave-one-out, with the features of the network; 0: not known
	Chosen   bool               `json:"chosen"`                    // the model has the segments
}

// checkSegments refuses contradictory options.
func (opt *RetrainOptions) checkSegments() error {
	o, p := opt.Segments, opt.Policy
	if o == nil || !o.Always || p.Kind == reservoir.Count && p.Early == 0 && opt.Early == nil && opt.Target == "" && !opt.Novelty.alone() {
		return nil
	}
	return errors.New("offline: segments, want the policy count, classes, and no early predictions")
}

// setSegments decides whether the training compares segments with the network.
func (t *training) setSegments() error {
	o, p := t.opt.Segments, t.opt.Policy
	if o == nil || p.Kind != reservoir.Count || p.Early != 0 || t.opt.Early != nil || t.opt.Target != "" || t.opt.Novelty.alone() {
		return nil
	}
	samples := int(t.front.Out(int64(p.Length)))
	t.segments = divideSequence(samples, o.Count)
	if o.Always {
		if t.segments == nil {
			return fmt.Errorf("offline: segments of sequences of %d samples after the front end, want a number of segments that divides them, at most %d, and leaves 2 samples or more", samples, reservoir.MaxSegments)
		}
		return nil
	}
	if t.segments == nil || t.plan.points > t.plan.streams || len(t.opt.Alphas) == 1 || t.opt.Weights.given() {
		t.segments = nil // leave-one-out has no comparable accuracies
		return nil
	}
	if n := t.withStatistics().StatisticsSize(len(t.src.channels)); n > mostStatistics || n*len(t.examples.labels) > mostAllStatistics {
		t.segments = nil
	}
	return nil
}

// divideSequence returns count segments of a sequence with n samples, 0: about defaultSegments; nil: n has no such
// divisor.
func divideSequence(n, count int) *reservoir.Segments {
	from, to := count, count
	if count == 0 {
		from, to = fewestSegments, mostSegments
	}
	distance := func(count int) float64 { return math.Abs(math.Log(float64(count) / defaultSegments)) }
	best := 0
	for c := max(2, from); c <= min(to, reservoir.MaxSegments, n/2); c++ {
		if n%c == 0 && (best == 0 || distance(c) < distance(best)) {
			best = c
		}
	}
	if best == 0 {
		return nil
	}
	return &reservoir.Segments{Count: best, Length: n / best}
}

// chooseSegments learns a readout of segments, if requested. It returns the readout with the better leave-one-out accuracy,
// and the report of this readout; linear and report are the network's.
func (t *training) chooseSegments(ctx context.Context, linear *readout.Linear, report fit.Report) (*readout.Linear, fit.Report, error) {
	if t.segments == nil {
		return linear, report, nil
	}
	choice := &SegmentReport{Segments: *t.segments, Chosen: t.opt.Segments.Always}
	var known bool
	if choice.Network, known = report.LeftOut(); !known && !choice.Chosen {
		return linear, report, nil
	}
	d := len(t.statistics) / len(t.examples.labels)
	l, r, err := t.fitColumns(ctx, "segments", d, cmp.Or(t.opt.Memory, DefaultMemory), func(i int, row []float32) { copy(row, t.statistics[i*d:]) })
	if err != nil {
		return nil, report, err
	}
	t.report.Segments = choice
	choice.Accuracy, _ = r.LeftOut()
	// Sequences of a group are alike: the groups are the independent samples.
	n := cmp.Or(report.Groups, report.LeftOutSamples, report.Samples)
	if gain := math.Sqrt(choice.Network * (1 - choice.Network) / float64(n)); choice.Accuracy > choice.Network+gain {
		choice.Chosen = true
	}
	if !choice.Chosen {
		return linear, report, nil
	}
	t.front = t.withStatistics()
	if t.opt.Novelty == nil {
		if t.net, err = t.smallestNetwork(); err != nil {
			return nil, report, err
		}
	}
	out := *l
	features := t.net.Spec.FeatureCount()
	out.Center, out.Limit, out.Weights = make([]float32, features), nil, make([]float32, linear.Columns()*features)
	out.Segments = &readout.SegmentWeights{Center: l.Center, Limit: t.segmentLimits(l.Center), Weights: l.Weights}
	return &out, r, nil
}

// smallestNetwork returns a network of one unit with the same input: no readout reads the state.
func (t *training) smallestNetwork() (*reservoir.Network, error) {
	spec := reservoir.EulerBank(len(t.src.channels))
	spec.Members, spec.Units, spec.Seed, spec.Features = 1, 1, t.opt.Spec.Seed, []reservoir.Feature{reservoir.Last}
	spec.Standardize, spec.Difference = t.opt.Spec.Standardize, t.opt.Spec.Difference
	net, err := reservoir.Draw(spec.WithDefaults())
	if err == nil {
		net.Norm = t.net.Norm
	}
	return net, err
}

// segmentLimits returns the largest distance of each statistic from its center in the training sequences: samples far from
// the training data, such as spikes, count no more.
func (t *training) segmentLimits(center []float32) []float32 {
	d := len(center)
	limits := make([]float32, d)
	for i, v := range t.statistics {
		limits[i%d] = max(limits[i%d], float32(math.Abs(float64(v)-float64(center[i%d]))))
	}
	for j, v := range limits {
		limits[j] = cmp.Or(v, 1) // constant: the weight is 0
	}
	return limits
}
