package readout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// Learner learns a head from samples that come one after the other, and holds
// no more of them than it must.
//
// Where samples are no more than features it keeps all of them, in memory or,
// beyond Options.Memory, in a temporary file, and Solve is Fit. Where they are
// more it keeps moments and the samples that are left out in turn to choose
// alpha: all of them where they are few, else whole groups drawn by a hash of
// their place in the order, so that neither threads nor parts (see Part) change
// which. Each is still left out of all samples, exactly; there are only fewer
// such errors to average.
//
// A Learner may be given a part of the samples alone and be merged with those
// of the others. Not safe for concurrent use.
type Learner struct {
	classes  []string
	features int
	samples  int  // of all parts
	kernel   bool // all are kept, and no moments
	from, to int  // the part
	at       int  // samples added, from from on

	labels []int  // of all samples; nil after Decode
	kept   []span // of all samples, those that are kept, in order; nil: all
	next   int    // the first of kept that may lie before at

	rows       *rows // kept
	keptLabels []int // of rows
	keptGroups []int // of rows: the first sample of their group; nil where each is by itself
	groups     []span

	moments *moments
	buffer  []float32 // whole panels enter the moments, whatever Add is given
}

// NewLearner prepares for samples with the given labels, in this order. Of the
// options it reads Alphas, Groups, Memory; Solve wants the same.
func NewLearner(features int, classes []string, labels []int, opt Options) (*Learner, error) {
	return NewPart(features, classes, labels, 0, len(labels), opt)
}

// NewPart is NewLearner for the samples [from, to) alone, to be merged with
// the other parts: from and to lie between groups.
func NewPart(features int, classes []string, labels []int, from, to int, opt Options) (*Learner, error) {
	l := &Learner{classes: slices.Clone(classes), features: features, samples: len(labels), from: from, to: to, labels: labels}
	if features < 1 || len(classes) < 2 {
		return nil, fmt.Errorf("readout: %d features and %d classes, want at least 1 and 2", features, len(classes))
	}
	if from < 0 || from >= to || to > len(labels) {
		return nil, fmt.Errorf("readout: samples %d to %d of %d, want a part that is not empty", from, to, len(labels))
	}
	for i, label := range labels {
		if label < 0 || label >= len(classes) {
			return nil, fmt.Errorf("readout: sample %d: label %d, want 0 to %d", i, label, len(classes)-1)
		}
	}
	var err error
	if l.groups, err = spans(opt.Groups, len(labels)); err != nil {
		return nil, err
	}
	for _, g := range l.groups {
		if g.from < from && from < g.to || g.from < to && to < g.to {
			return nil, fmt.Errorf("readout: samples %d to %d cut the group %d to %d", from, to, g.from, g.to)
		}
	}
	plan := NewPlan(features, len(classes), len(labels), opt)
	if err := plan.check(l.whole(), opt.Memory); err != nil {
		return nil, err
	}
	l.kernel, l.kept = plan.Kernel, plan.kept
	count := 0
	for _, s := range l.keptIn(from, to) {
		count += s.size()
	}
	if l.rows, err = newRows(features, count, plan.Spilled && l.whole()); err != nil {
		return nil, err
	}
	if !l.kernel {
		l.moments = newMoments(features, len(classes))
		l.buffer = make([]float32, 0, panel*features)
	}
	return l, nil
}

func (l *Learner) whole() bool { return l.from == 0 && l.to == l.samples }

// keptIn is what is kept of the samples [from, to).
func (l *Learner) keptIn(from, to int) []span {
	if l.kept == nil {
		return []span{{from, to}}
	}
	var list []span
	first := sort.Search(len(l.kept), func(i int) bool { return l.kept[i].to > from })
	for _, s := range l.kept[first:] {
		if s.from >= to {
			break
		}
		list = append(list, span{max(from, s.from), min(to, s.to)})
	}
	return list
}

// Add takes the next samples, a row of features each. It keeps no view of them.
func (l *Learner) Add(features []float32) error {
	f := l.features
	n := len(features) / f
	if l.at+n > l.to-l.from {
		return fmt.Errorf("readout: %d samples added, want %d", l.at+n, l.to-l.from)
	}
	first := l.from + l.at
	if err := checkSamples(features, l.labels[first:first+n], f, len(l.classes)); err != nil {
		return err
	}
	for _, s := range l.keptIn(first, first+n) {
		if err := l.rows.add(features[(s.from-first)*f : (s.to-first)*f]); err != nil {
			return err
		}
		l.keptLabels = append(l.keptLabels, l.labels[s.from:s.to]...)
		if l.groups != nil {
			for i := s.from; i < s.to; i++ {
				g := sort.Search(len(l.groups), func(g int) bool { return l.groups[g].to > i })
				l.keptGroups = append(l.keptGroups, l.groups[g].from)
			}
		}
	}
	l.at += n
	if l.moments == nil {
		return nil
	}
	for len(features) > 0 {
		some := min(len(features), panel*f-len(l.buffer))
		l.buffer = append(l.buffer, features[:some]...)
		features = features[some:]
		if len(l.buffer) == panel*f || l.at == l.to-l.from && len(features) == 0 {
			done := l.from + l.at - len(features)/f
			l.moments.add(l.buffer, l.labels[done-len(l.buffer)/f:done])
			l.buffer = l.buffer[:0]
		}
	}
	return nil
}

// Solve is the head, once all samples have been added. It uses the learner up,
// but for Close.
func (l *Learner) Solve(ctx context.Context, opt Options) (*Linear, Report, error) {
	if !l.whole() || l.at != l.samples {
		return nil, Report{}, fmt.Errorf("readout: samples %d to %d of %d, want all", l.from, l.from+l.at, l.samples)
	}
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, Report{}, err
	}
	l.buffer = nil
	groups, err := spans(l.keptGroups, l.rows.n)
	if err != nil {
		return nil, Report{}, err
	}
	j := job{l.classes, l.keptLabels, groups, opt}
	if l.kernel {
		return j.throughKernel(ctx, l.rows)
	}
	m := l.moments
	l.moments = nil
	return j.throughMoments(ctx, m, l.rows.x)
}

// Merge adds the samples of the next part, which is used up.
func (l *Learner) Merge(next *Learner) error {
	if err := l.follows(next); err != nil {
		return err
	}
	if l.moments != nil {
		row := func(i int) ([]float64, error) { return next.moments.outer.Row(i)[:i+1], nil }
		if err := l.moments.merge(next.moments, row); err != nil {
			return err
		}
	}
	return l.append(next)
}

// follows refuses what is not the next part of the same job.
func (l *Learner) follows(next *Learner) error {
	switch {
	case !slices.Equal(l.classes, next.classes):
		return fmt.Errorf("readout: merging statistics of the classes %q and %q", l.classes, next.classes)
	case l.features != next.features || l.samples != next.samples || l.kernel != next.kernel || (l.keptGroups == nil) != (next.keptGroups == nil) && l.rows.n > 0 && next.rows.n > 0:
		return fmt.Errorf("readout: merging statistics of %d samples of %d features and %d of %d: not of one job", l.samples, l.features, next.samples, next.features)
	case l.at != l.to-l.from || next.at != next.to-next.from:
		return errors.New("readout: merging statistics before all samples were added")
	case l.to != next.from:
		return fmt.Errorf("readout: merging samples %d to %d with %d to %d, want the next ones", l.from, l.to, next.from, next.to)
	}
	return nil
}

// append takes over what next keeps.
func (l *Learner) append(next *Learner) error {
	l.rows.capacity += next.rows.n
	if err := l.rows.add(next.rows.x); err != nil {
		return err
	}
	l.keptLabels = append(l.keptLabels, next.keptLabels...)
	l.keptGroups = append(l.keptGroups, next.keptGroups...)
	l.at, l.to = l.at+next.at, next.to
	return nil
}

// Close frees what the memory is not the garbage collector's: the temporary
// file.
func (l *Learner) Close() error { return l.rows.close() }
