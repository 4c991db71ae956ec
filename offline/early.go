package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/early"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// EarlyOptions request a readout of the prefixes that the policy predicts, and a rule for sufficient prefixes; see
// package early.
type EarlyOptions struct {
	Loss float64 // allowed loss of accuracy, by leave-one-out: above 0, below 1
}

// check reports an error in the options.
func (e *EarlyOptions) check(opt RetrainOptions) error {
	switch p := opt.Policy; {
	case e == nil:
		return nil
	case !(e.Loss > 0 && e.Loss < 1):
		return fmt.Errorf("offline: deciding early: a loss of accuracy of %v, want a share above 0 and below 1", e.Loss)
	case p.Kind == reservoir.Endless:
		return errors.New("offline: deciding early: an endless sequence has no end that a prediction could come before: take the policy marked, gap or count")
	case p.Kind == reservoir.Window:
		return fmt.Errorf("offline: deciding early: a window predicts every %d samples already: take the policy marked, gap or count", p.Hop)
	case p.Early < 1:
		return errors.New("offline: deciding early: the policy predicts at ends alone, want early predictions every N samples (--early N)")
	}
	return nil
}

// decide trains a readout of prefixes and a rule for sufficient prefixes, for a model with a readout of whole
// sequences.
func (t *training) decide(ctx context.Context, m *reservoir.Model, progress archive.Progress) error {
	if t.opt.Early == nil {
		return nil
	}
	of := *t // with a plan of its own
	of.src.prefixes, of.kept, of.opt.Coverage, of.opt.MaxError, of.opt.Planned = true, nil, 0, 0, nil
	var err error
	if of.plan, err = makePlan(ctx, of.src, of.opt.Policy, true, of.front, nil); err != nil {
		return err
	}
	of.examples = of.plan.trainingOrder(of.src.classes, false)
	if of.plan.points == t.plan.points {
		return fmt.Errorf("offline: %s: no sequence has a prefix of %d samples, and the longest %d: predict more often (--early)", t.src.what, t.opt.Policy.Early, t.report.MaxLength)
	}
	prefixes, err := of.learn(ctx, progress)
	t.report.StateSeconds, t.report.FitSeconds = of.report.StateSeconds, t.report.FitSeconds+of.report.FitSeconds
	if err != nil {
		return err
	}
	linear := prefixes.Readouts[0]
	if linear.Temperature == 0 {
		return fmt.Errorf("offline: %s: leave-one-out gives no probabilities, so that nothing says when a prefix suffices: take a larger alpha, or do not decide early", t.src.what)
	}
	rule, report, err := early.Learn(sequencesOf(t, &of), t.opt.Early.Loss)
	if err != nil {
		return fmt.Errorf("offline: %s: %w", t.src.what, err)
	}
	m.Readouts[0].Prefixes, t.report.Early = &readout.Prefixes{Linear: linear, Rule: *rule}, (*EarlyReport)(&report)
	return m.Validate()
}

// sequencesOf returns the leave-one-out results of sequences and their prefixes.
func sequencesOf(whole, prefixes *training) (all []early.Sequence) {
	ends := map[int]early.Prefix{} // of each sequence
	whole.eachLeft(func(e *example, p early.Prefix) { ends[e.prefix.sequence] = p })
	last := -1
	prefixes.eachLeft(func(e *example, p early.Prefix) {
		end, ok := ends[e.prefix.sequence]
		if !ok {
			return
		}
		if e.prefix.sequence != last {
			all = append(all, early.Sequence{Label: e.label})
			last = e.prefix.sequence
		}
		if !e.prefix.early {
			p = end
		}
		s := &all[len(all)-1]
		s.Prefixes = append(s.Prefixes, p)
	})
	return all
}

// eachLeft visits the left-out examples, in their order.
func (t *training) eachLeft(visit func(*example, early.Prefix)) {
	of := make([]*example, len(t.plan.examples))
	for i := range t.plan.examples {
		of[t.plan.examples[i].arrival] = &t.plan.examples[i]
	}
	rows := make([][]float64, len(of)) // scores; nil: it was not left out
	left := t.report.Readout.Left
	for i := range left.Scores.Rows {
		rows[left.Samples[i]] = left.Scores.Row(i)
	}
	for i, e := range of {
		if rows[i] != nil {
			visit(e, prefixOf(rows[i], e.prefix.samples, t.report.Readout.Temperature))
		}
	}
}

// prefixOf evaluates the scores of a prefix, a number for each class.
func prefixOf(scores []float64, samples int64, temperature float64) early.Prefix {
	class := 0
	for k, s := range scores {
		if s > scores[class] {
			class = k
		}
	}
	second := math.Inf(-1)
	for k, s := range scores {
		if k != class {
			second = max(second, s)
		}
	}
	return early.Prefix{Samples: samples, Class: class, Margin: temperature * (scores[class] - second)}
}

// adaptSets lets the labels of predictions move the thresholds of their sets.
func adaptSets(linear *readout.Linear, of []*Prediction, rate float64, late int) (*adaptive.Report, error) {
	set := make([]int32, 0, len(linear.Classes))
	return adaptive.Run(linear.Coverage.Level, rate, late, len(of), func(i int, share float64) (held bool, size int) {
		set = linear.AppendSetAt(set[:0], of[i].Scores, fit.ThresholdsAt(linear.Coverage, share))
		return slices.Contains(set, int32(of[i].Label)), len(set)
	})
}

// adaptNumbers lets the true numbers move the edges of their intervals.
func adaptNumbers(v *readout.Interval, of []*Prediction, rate float64, late int) (*adaptive.Numbers, error) {
	return adaptive.RunNumbers(v.Level, rate, float64(v.Low), float64(v.High), late, len(of), func(i int) float64 {
		return v.Learned(of[i].Truth) - float64(of[i].Scores[0])
	})
}

// adapt is bridge.Adapt.
func (ev *Evaluation) adapt(m *reservoir.Model, rate float64, late int) (a bridge.Adapted, err error) {
	linear, err := chooseReadout(m, ev.Readout)
	if err != nil {
		return a, err
	}
	of, l, next := ev.labeled(), *linear, *m
	switch {
	case linear.Coverage == nil && linear.Interval == nil:
		return a, errors.New("offline: sets that adapt, and a model without sets of classes: train it with a coverage")
	case len(of) == 0:
		return a, nil
	case linear.Interval != nil:
		if a.AdaptiveNumbers, err = adaptNumbers(linear.Interval, of, rate, late); err == nil {
			l.Interval = fit.MoveInterval(l.Interval, a.AdaptiveNumbers.Low, a.AdaptiveNumbers.High)
		}
	default:
		if a.Adaptive, err = adaptSets(linear, of, rate, late); err == nil {
			l.Coverage = fit.ActingCoverage(l.Coverage, a.Adaptive.Share)
		}
	}
	if err != nil {
		return a, err
	}
	next.Readouts = slices.Clone(m.Readouts)
	next.Readouts[slices.Index(next.Readouts, linear)] = &l
	a.Changed = &next
	return a, next.Validate()
}
