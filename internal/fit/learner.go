package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
)

// Learner learns a readout from a sequence of samples, and holds as few samples as possible.
//
// With at most as many samples as features, Learner keeps all samples, in memory or, beyond
// Options.Memory, in a temporary file, and Solve equals Fit. With more samples, Learner keeps
// moments and the samples that are left out in turn to choose alpha: all if few, otherwise
// whole groups drawn by a hash of their place in the order, so that neither threads nor parts
// (see NewPart) change the draw. Each sample is still left out of all samples, exactly; the
// average only has fewer errors.
//
// If features are clipped and not kept (Plan.Passes is 2), Learner needs the samples twice:
// all for Measure, then all for Add.
//
// A Learner may receive only a part of the samples and be merged with the other parts. Not
// safe for concurrent use.
type Learner struct {
	classes  []string
	features int
	samples  int  // of all parts
	kernel   bool // all samples are kept, and no moments
	from, to int  // the part
	plan     Plan

	labels []int   // of all samples; nil in a part that was decoded
	place  []int32 // of each sample of the part: its place among the kept samples, -1 for none
	at     int     // samples added

	kept *samples // samples of a group are adjacent
	left

	moments  *moments
	buffer   []float32 // moments receive whole panels, for any block size of Add
	scaling  scaling
	measured *measures // of all samples, before the first Add; nil: not needed
	raw      *space    // of measured, after the first Add
	clipped  []float32 // a panel
}

// left describes the kept samples.
type left struct {
	keptLabels []int
	keptGroups []int   // the first sample of their group; nil if each sample is a group
	within     *nested // of groups within Options.Outer; else nil

	numbers     *numbers // of a regression, of all samples; else nil
	numbersKept []float64
}

// NewLearner prepares for samples with the given labels, in this order; samples of a group
// need not be adjacent. NewLearner reads the same options as NewPlan; Solve needs equal
// options.
func NewLearner(features int, classes []string, labels []int, opt Options) (*Learner, error) {
	return NewPart(features, classes, labels, 0, len(labels), opt)
}

// NewPart is NewLearner for only the samples [from, to), to be merged with the other parts: no
// group has samples in two parts.
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

// prepare chooses the storage of samples, and allocates memory.
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

// checkLabels rejects labels outside the classes.
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

// weigh returns the weights of the classes of all samples.
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

// places assigns places to the kept samples of the part, group by group.
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

// open allocates memory or files for the samples.
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

// Measure takes the features of the next samples, row-major: of all samples, also if the
// Learner learns a part, because all parts clip alike. Measure is for a plan of two passes,
// before the first call of Add. Measure keeps no reference to features.
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

// Add takes the features of the next samples, row-major. Add keeps no reference to features.
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

// take adds samples unchanged.
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

// learn adds samples to the moments; before is the number of preceding samples.
func (l *Learner) learn(features []float32, before int) {
	n := len(features) / l.features
	l.moments.add(features, l.labels[before-n:before])
	if l.numbers != nil {
		l.moments.addNumbers(features, l.numbers.some(nil, before-n, n))
	}
}

// Plan returns the plan with memory and time.
func (l *Learner) Plan() Plan { return l.plan }

// Solve returns the readout, once all samples are added. Afterwards only Close may be called.
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
		kept := *l.numbers
		kept.of = l.numbersKept
		j.numbers = &kept
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

// keptNumbers returns the kept samples' numbers among all samples.
func (l *Learner) keptNumbers() []int {
	numbers := make([]int, len(l.keptLabels))
	for i, place := range l.place {
		if place >= 0 {
			numbers[place] = l.from + i
		}
	}
	return numbers
}

// unclipped returns the space of the samples before clipping; nil: not clipped.
func (l *Learner) unclipped(o scaling) (*space, error) {
	if l.measured == nil || l.raw != nil {
		return l.raw, nil
	}
	if o.clip() == 0 { // measured by another process
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

// Close removes the temporary file.
func (l *Learner) Close() error { return l.kept.close() }
