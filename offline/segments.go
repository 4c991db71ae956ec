package offline

import (
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
// The zero value is the default.
type SegmentOptions struct {
	Count int // segments of a sequence, a divisor of its samples after the front end; 0: the divisor next to defaultSegments

	// Always takes the segments also if leave-one-out is not better by more than a standard error. Otherwise the network
	// remains, because only its readout can be explained, exported, and trained by labels of a running job.
	Always bool
}

// defaultSegments is about the number of segments of a sequence.
const defaultSegments = 12

// mostSegmentStatistics bounds the memory of statistics that no option requires, in numbers: 256 MiB.
const mostSegmentStatistics = 1 << 26

// SegmentReport describes the choice between segments and the network.
type SegmentReport struct {
	Segments reservoir.Segments `json:"segments"`
	Accuracy float64            `json:"accuracy"`         // of leave-one-out
	Network  float64            `json:"network_accuracy"` // of leave-one-out, with the features of the network
	Chosen   bool               `json:"chosen"`           // the model has the segments
}

// setSegments decides whether the training compares segments with the network.
func (t *training) setSegments() error {
	o := t.opt.Segments
	if o == nil {
		return nil
	}
	p := t.opt.Policy
	if p.Kind != reservoir.Count || p.Early != 0 || t.opt.Early != nil || t.opt.Target != "" || t.opt.Novelty.alone() {
		if o.Always {
			return errors.New("offline: segments, want the policy count, classes, and no early predictions")
		}
		return nil
	}
	samples := p.Length
	if t.front != nil {
		samples = int(t.front.Out(int64(samples)))
	}
	t.segments = divideSequence(samples, o.Count)
	switch {
	case t.segments == nil && o.Always:
		return fmt.Errorf("offline: %d segments of sequences of %d samples, want a divisor, at most %d, that leaves 2 samples or more", o.Count, samples, reservoir.MaxSegments)
	case t.segments != nil && !o.Always && len(t.examples.labels)*t.withStatistics().StatisticsSize(len(t.src.channels)) > mostSegmentStatistics:
		t.segments = nil
	}
	return nil
}

// divideSequence returns count segments of a sequence with n samples, 0: about defaultSegments; nil: n has no such
// divisor.
func divideSequence(n, count int) *reservoir.Segments {
	distance := func(count int) float64 { return math.Abs(math.Log(float64(count) / defaultSegments)) }
	best := 0
	for c := 2; c <= min(reservoir.MaxSegments, n/2); c++ {
		if n%c == 0 && (count == c || count == 0 && (best == 0 || distance(c) < distance(best))) {
			best = c
		}
	}
	if best == 0 {
		return nil
	}
	return &reservoir.Segments{Count: best, Length: n / best}
}

// chooseSegments learns a readout of segments, if requested, and returns it if its leave-one-out accuracy is better than
// that of the given readout; otherwise the given readout and its report.
func (t *training) chooseSegments(ctx context.Context, linear *readout.Linear, report fit.Report) (*readout.Linear, fit.Report, error) {
	if t.segments == nil {
		return linear, report, nil
	}
	d := len(t.statistics) / len(t.examples.labels)
	l, r, err := t.fitColumns(ctx, "segments", d, func(i int, row []float32) { copy(row, t.statistics[i*d:]) })
	if err != nil {
		return nil, report, err
	}
	choice := &SegmentReport{Segments: *t.segments}
	choice.Accuracy, _ = r.LeftOut()
	choice.Network, _ = report.LeftOut()
	t.report.Segments = choice
	gain := math.Sqrt(choice.Network * (1 - choice.Network) / float64(len(t.examples.labels)))
	if choice.Chosen = t.opt.Segments.Always || choice.Accuracy > choice.Network+gain; !choice.Chosen {
		return linear, report, nil
	}
	t.front = t.withStatistics()
	out := *l
	features := linear.Features()
	out.Center, out.Limit, out.Weights = make([]float32, features), nil, make([]float32, linear.Columns()*features)
	out.Segments = &readout.SegmentWeights{Center: l.Center, Weights: l.Weights}
	return &out, r, nil
}
