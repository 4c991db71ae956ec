package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
)

// Learner learns a readout from samples that come one after the other, and holds
// no more of them than it must.
//
// Where samples are no more than features it keeps all of them, in memory or,
// beyond Options.Memory, in a temporary file, and Solve is Fit. Where they are
// more it keeps moments and the samples that are left out in turn to choose
// alpha: all of them where they are few, else whole groups drawn by a hash of
// their place in the order, so that neither threads nor parts (see NewPart)
// change which. Each is still left out of all samples, exactly; there are only
// fewer such errors to average.
//
// Where features are clipped and not kept (Plan.Passes is 2) it needs the samples
// twice: all of them for Measure, then for Add.
//
// A Learner may be given a part of the samples alone and be merged with those
// of the others. Not safe for concurrent use.
type Learner struct {
	classes  []string
	features int
	samples  int  // of all parts
	kernel   bool // all are kept, and no moments
	from, to int  // the part
	plan     Plan

	labels []int   // of all samples; nil in a part that was decoded
	place  []int32 // of each sample of the part: its place among those kept, -1 for none
	at     int     // samples added

	kept *samples // those of a group next to each other
	left

	moments  *moments
	buffer   []float32 // whole panels enter the moments, whatever Add is given
	scaling  scaling
	measured *measures // of all samples, before the first is added; nil: not wanted
	raw      *space    // of them, once the first is added
	clipped  []float32 // a panel
}

// left is what is known of the samples that are kept.
type left struct {
	keptLabels []int
	keptGroups []int   // the first sample of their group; nil where each is by itself
	within     *nested // of groups that are Options.Outer; else nil

	numbers     *numbers // of a regression, of all samples; else nil
	numbersKept []float64
}

// NewLearner prepares for samples with the given labels, in this order; those
// of a group need not be next to each other. It reads the options that NewPlan
// reads; Solve wants the same.
func NewLearner(features int, classes []string, labels []int, opt Options) (*Learner, error) {
	return NewPart(features, classes, labels, 0, len(labels), opt)
}

// NewPart is NewLearner for the samples [from, to) alone, to be merged with
// the other parts: no group has samples in two of them.
func NewPart(features int, classes []string, labels []int, from, to int, opt Options) (*Learner, error) {
	l := &Learner{classes: slices.Clone(classes), features: features, samples: len(labels), from: from, to: to, labels: labels}
	var err error
	if l.numbers, err = newNumbers(opt.Numbers, len(labels), len(classes), opt.Coverage, opt.forClasses()); err != nil {
		return nil, err
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	if l.numbers != nil && !l.whole() {
		return nil, fmt.Errorf("fit: samples %d to %d of %d with numbers, want all samples in one part", from, to, len(labels))
	}
	if err := checkLabels(labels, len(classes)); err != nil {
		return nil, err
	}
	groups, err := opt.groups(len(labels))
	if err != nil {
		return nil, err
	}
	if opt.Outer != nil {
		if !l.whole() {
			return nil, fmt.Errorf("fit: samples %d to %d of %d with outer groups, want all samples in one part", from, to, len(labels))
		}
		l.within = &nested{of: opt.Groups, outer: opt.Outer}
	}
	if err := opt.Soft.check(features); err != nil {
		return nil, err
	}
	return l, l.prepare(groups, opt)
}

// prepare chooses how the samples are kept, and makes room for them.
func (l *Learner) prepare(groups [][]int32, opt Options) error {
	weights, err := l.weigh(opt.ClassWeights)
	if err != nil {
		return err
	}
	plan := NewPlan(l.features, len(l.classes), l.samples, opt)
	if err := plan.check(l.whole(), opt.Memory); err != nil {
		return err
	}
	l.kernel, l.plan, l.scaling = plan.Kernel, plan, opt.scaling()
	if plan.Passes > 1 {
		l.measured = newMeasures(l.features)
		l.measured.weights = weights
	}
	if err := l.places(groups, plan); err != nil {
		return err
	}
	return l.open(plan.Kernel && plan.Spilled && l.whole(), weights)
}

// checkLabels refuses labels that are none of so many classes.
func checkLabels(labels []int, classes int) error {
	for i, label := range labels {
		if label < 0 || label >= classes {
			return fmt.Errorf("fit: sample %d: label %d, want 0 to %d", i, label, classes-1)
		}
	}
	return nil
}

func (l *Learner) check() error {
	if l.features < 1 || len(l.classes) < 2 && l.numbers == nil {
		return fmt.Errorf("fit: %d features and %d classes, want at least 1 and 2", l.features, len(l.classes))
	}
	if l.from < 0 || l.from >= l.to || l.to > l.samples {
		return fmt.Errorf("fit: samples %d to %d of %d, want a part that is not empty", l.from, l.to, l.samples)
	}
	return nil
}

// weigh gives the weights of the classes of all samples.
func (l *Learner) weigh(given []float64) ([]float64, error) {
	if given == nil {
		return nil, nil
	}
	if !l.whole() {
		return nil, fmt.Errorf("fit: samples %d to %d of %d with class weights, want all samples in one part", l.from, l.to, l.samples)
	}
	counts := make([]int, len(l.classes))
	for _, label := range l.labels {
		counts[label]++
	}
	return weightsOf(given, l.classes, counts)
}

func (l *Learner) whole() bool { return l.from == 0 && l.to == l.samples }

// places gives the samples of the part that are kept their places, group by
// group.
func (l *Learner) places(groups [][]int32, plan Plan) error {
	l.place = make([]int32, l.to-l.from)
	for i := range l.place {
		l.place[i] = -1
	}
	inside := func(i int32) bool { return l.from <= int(i) && int(i) < l.to }
	add := func(i, group int32) {
		l.place[int(i)-l.from] = int32(len(l.keptLabels))
		l.keptLabels = append(l.keptLabels, l.labels[i])
		if l.numbers != nil {
			l.numbersKept = append(l.numbersKept, l.numbers.of[i])
		}
		if groups != nil {
			l.keptGroups = append(l.keptGroups, int(group))
		}
		l.within.keep(int(i))
	}
	if groups == nil {
		for i := l.from; i < l.to; i++ {
			if plan.keeps(i) {
				add(int32(i), 0)
			}
		}
		return nil
	}
	for g, members := range groups {
		for _, i := range members {
			if inside(i) != inside(members[0]) {
				return fmt.Errorf("fit: samples %d to %d cut the group of samples %d and %d", l.from, l.to, members[0], i)
			}
			if inside(i) && plan.keeps(g) {
				add(i, members[0])
			}
		}
	}
	return nil
}

// open makes room for what will be added.
func (l *Learner) open(spill bool, weights []float64) (err error) {
	if l.kept, err = newSamples(l.features, len(l.keptLabels), spill); err != nil {
		return err
	}
	if !l.kernel {
		l.moments = newMoments(l.features, len(l.classes))
		l.moments.weights = weights
	}
	return nil
}

// Measure takes the features of the next samples of all, row-major, also where the
// Learner is of a part: all parts clip alike. It is for a plan of two passes, before
// the first call of Add. It keeps no view of them.
func (l *Learner) Measure(features []float32) error {
	n := len(features) / l.features
	switch {
	case l.measured == nil || l.raw != nil:
		return errors.New("fit: samples to measure, want a plan of two passes, and none added")
	case l.measured.n+n > l.samples:
		return fmt.Errorf("fit: %d samples measured, want %d", l.measured.n+n, l.samples)
	}
	if err := checkSamples(features, l.labels[l.measured.n:][:n], l.features, len(l.classes)); err != nil {
		return err
	}
	l.measured.add(features, l.labels[l.measured.n:][:n])
	return nil
}

// Add takes the features of the next samples, row-major. It keeps no view of
// them.
func (l *Learner) Add(features []float32) error {
	f := l.features
	n := len(features) / f
	if l.at+n > l.to-l.from {
		return fmt.Errorf("fit: %d samples added, want %d", l.at+n, l.to-l.from)
	}
	if err := checkSamples(features, l.labels[l.from+l.at:][:n], f, len(l.classes)); err != nil {
		return err
	}
	if l.measured == nil {
		return l.take(features)
	}
	if l.measured.n < l.samples {
		return fmt.Errorf("fit: %d samples measured, want %d before the first is added: features that are clipped and not kept are needed twice", l.measured.n, l.samples)
	}
	if l.raw == nil {
		s := l.measured.space(l.scaling)
		l.raw, l.clipped = &s, make([]float32, min(panel, l.to-l.from)*f)
	}
	for len(features) > 0 {
		some := l.clipped[:min(len(l.clipped), len(features))]
		l.raw.clip.samples(some, features[:len(some)])
		if err := l.take(some); err != nil {
			return err
		}
		features = features[len(some):]
	}
	return nil
}

// take adds samples as they are.
func (l *Learner) take(features []float32) error {
	f := l.features
	n := len(features) / f
	for i, place := range l.place[l.at : l.at+n] {
		if place < 0 {
			continue
		}
		if err := l.kept.put(int(place), features[i*f:(i+1)*f]); err != nil {
			return err
		}
	}
	l.at += n
	if l.moments == nil {
		return nil
	}
	if len(l.buffer) == 0 && (n == panel || n < panel && l.at == l.to-l.from) {
		l.learn(features, l.from+l.at)
		return nil
	}
	for len(features) > 0 {
		some := min(len(features), panel*f-len(l.buffer))
		l.buffer = append(l.buffer, features[:some]...)
		features = features[some:]
		if len(l.buffer) == panel*f || l.at == l.to-l.from && len(features) == 0 {
			l.learn(l.buffer, l.from+l.at-len(features)/f)
			l.buffer = l.buffer[:0]
		}
	}
	return nil
}

// learn adds samples to the moments, those before one of all.
func (l *Learner) learn(features []float32, before int) {
	n := len(features) / l.features
	l.moments.add(features, l.labels[before-n:before])
	if l.numbers != nil {
		l.moments.addNumbers(features, l.numbers.some(nil, before-n, n))
	}
}

// Plan is how it learns, and what that takes.
func (l *Learner) Plan() Plan { return l.plan }

// Solve is the readout, once all samples have been added. It uses the learner up,
// but for Close.
func (l *Learner) Solve(ctx context.Context, opt Options) (*readout.Linear, Report, error) {
	if err := l.added(); err != nil || !l.whole() {
		return nil, Report{}, fmt.Errorf("fit: samples %d to %d of %d, want all", l.from, l.from+l.at, l.samples)
	}
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, Report{}, err
	}
	l.buffer, l.clipped = nil, nil
	groups, err := spans(l.keptGroups, len(l.keptLabels))
	if err != nil {
		return nil, Report{}, err
	}
	j := job{classes: l.classes, labels: l.keptLabels, groups: groups, opt: opt, left: l.keptNumbers()}
	if l.numbers != nil {
		j.numbers = &numbers{l.numbersKept, l.numbers.mean}
	}
	if l.within != nil {
		if j.outer, err = newOuter(l.within.keptOuter, l.within.kept, len(l.keptLabels)); err != nil {
			return nil, Report{}, err
		}
		j.opt.Outer = l.within.outer
	}
	if l.kernel {
		return j.throughKernel(ctx, l.kept)
	}
	raw, err := l.unclipped(opt.scaling())
	if err != nil {
		return nil, Report{}, err
	}
	m := l.moments
	l.moments = nil
	return j.throughMoments(ctx, sums{m, l.kept.x, raw, l.plan.Spilled})
}

// keptNumbers are the kept samples' numbers among all.
func (l *Learner) keptNumbers() []int {
	numbers := make([]int, len(l.keptLabels))
	for i, place := range l.place {
		if place >= 0 {
			numbers[place] = l.from + i
		}
	}
	return numbers
}

// unclipped is the space of the samples before they were clipped; nil: they were
// not.
func (l *Learner) unclipped(o scaling) (*space, error) {
	if l.measured == nil || l.raw != nil {
		return l.raw, nil
	}
	if o.clip() == 0 { // it was read from elsewhere
		return nil, errors.New("fit: statistics of samples that were clipped, want the options that they were added with")
	}
	if err := o.soft.check(l.features); err != nil {
		return nil, err
	}
	s := l.measured.space(o)
	return &s, nil
}

func (l *Learner) added() error {
	if l.at != l.to-l.from {
		return fmt.Errorf("fit: want %d samples added, got %d", l.to-l.from, l.at)
	}
	return nil
}

// Close frees what the memory is not the garbage collector's: the temporary
// file.
func (l *Learner) Close() error { return l.kept.close() }
