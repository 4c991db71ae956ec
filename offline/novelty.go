package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// NoveltyOptions request a detector of data unlike the training part (package novelty).
type NoveltyOptions struct {
	Level float64 // share of predictions like the training's that may be novel; 0: from AlarmsPerDay, else detect.DefaultLevel
	// AlarmsPerDay is the mean number of allowed false alarms of a stream in a day, and PerDay the number of its
	// predictions; 0: derived from rate and policy.
	AlarmsPerDay, PerDay float64
	// HealthyOnly trains only a detector: the classes are Healthy and "novel". Healthy is the class to learn from;
	// empty: all data, with and without a label.
	HealthyOnly bool
	Healthy     string
	// Inputs also learns to read level, spread and pace of the channels, for alarms of drift
	// (novelty.Detector.Inputs).
	Inputs bool
}

// Names of classes of a model without faults.
const (
	normalClass = "normal" // if the data have no name for the healthy class
	novelClass  = "novel"
)

// alone reports whether only the detector is trained, all whether this detector learns from all data.
func (o *NoveltyOptions) alone() bool { return o != nil && o.HealthyOnly }
func (o *NoveltyOptions) all() bool   { return o.alone() && o.Healthy == "" }

// healthy restricts src to healthy data: a single class, and no label for the rest.
func (o *NoveltyOptions) healthy(src labeledData) (labeledData, error) {
	of := -1
	switch {
	case o.Healthy == novelClass:
		return src, fmt.Errorf("offline: %s: the healthy class is %q, which is what this model calls everything else: give it another name", src.what, novelClass)
	case o.Healthy != "":
		if of = slices.Index(src.classes, o.Healthy); of < 0 {
			return src, fmt.Errorf("offline: %s has no class %q, it has %s", src.what, o.Healthy, names.Cut(fmt.Sprintf("%q", src.classes), 200))
		}
	case len(src.classes) > 1:
		return src, fmt.Errorf("offline: %s has the classes %s: say which is the healthy one (--healthy-only=CLASS)", src.what, names.Cut(fmt.Sprintf("%q", src.classes), 200))
	}
	name := o.Healthy
	if name == "" && len(src.classes) == 1 && src.classes[0] != novelClass {
		name = src.classes[0]
	}
	src.classes = []string{cmp.Or(name, normalClass), novelClass}
	src.sampleSource = healthySource{src.sampleSource, of}
	return src, nil
}

// check refuses options without a use for a model of only healthy data.
func (o *NoveltyOptions) check(opt RetrainOptions) error {
	if o.alone() && (opt.Coverage != 0 || opt.MaxError != 0 || opt.Priors.given() || opt.Weights.given()) {
		return errors.New("offline: healthy data alone, and a coverage, a largest error, priors or class weights: a model without faults makes no sets of classes, is never wrong about one, and has one class to learn from: leave these out")
	}
	if o.alone() && opt.Policy.Early > 0 && opt.Policy.Kind != reservoir.Endless {
		return fmt.Errorf("offline: healthy data alone, and early predictions: how unlike the training a sequence is, is known of whole ones alone: predict at ends (--early 0), or in shorter sequences (the policies %s and %s)", reservoir.Window, reservoir.Count)
	}
	return nil
}

// healthySource has one class: the samples of class of, or all samples.
type healthySource struct {
	sampleSource
	of int // -1: all
}

func (h healthySource) read(ctx context.Context, yield func(*chunk) error) error {
	var labels []int
	return h.sampleSource.read(ctx, func(c *chunk) error {
		labels = labels[:0]
		for _, l := range c.labels {
			if h.of >= 0 && l != h.of {
				labels = append(labels, -1)
			} else {
				labels = append(labels, 0)
			}
		}
		c.labels, c.told, c.counts = labels, nil, false
		return yield(c)
	})
}

// keeper keeps the training data of a detector: all sequences, or groups of sequences drawn by a generator of a fixed
// seed.
type keeper struct {
	level  float64
	f      int
	of     []int // place of each sequence among the kept sequences, -1 for none
	at     int   // sequences seen
	x      []float32
	groups []int
	labels []int         // the class of each
	inputs []float64     // statistics of the kept sequences; nil: not requested
	width  int           // channels
	scales []float32     // of the channels
	aside  bool          // see detect.Options
	spans  []detect.Span // places of the kept sequences in time; nil: not wanted

	statistics []float32 // of the kept sequences (reservoir.Front.Statistics); nil: not wanted
	means      int       // statistics of a channel
}

// detectorMeans returns the lengths of running means for a detector of only healthy data: a fifth and four fifths of a
// window. Other sequences restart the means. nil: none.
func (t *training) detectorMeans() []int {
	const means = 2
	if !t.opt.Novelty.alone() || t.opt.Policy.Kind != reservoir.Window || means*len(t.src.channels) > detect.MostStatistics {
		return nil
	}
	window := int(t.plan.medianLength())
	short := max(1, window/5)
	return []int{short, max(short+1, 4*window/5)}
}

// keep prepares for a detector, if requested.
func (t *training) keep() (err error) {
	if t.opt.Novelty == nil {
		return nil
	}
	groups := t.examples.groups
	if t.examples.sites != nil {
		groups = t.examples.sites
	}
	t.kept = newKeeper(t.opt.Spec.FeatureCount(), groups)
	for i, label := range t.examples.labels {
		if t.kept.of[i] >= 0 {
			t.kept.labels = append(t.kept.labels, label)
		}
	}
	if t.opt.Novelty.alone() {
		t.kept.aside = t.examples.sites == nil
		t.kept.spans = make([]detect.Span, len(t.kept.groups))
		for _, e := range t.plan.examples {
			if at := t.kept.of[e.arrival]; at >= 0 {
				t.kept.spans[at] = e.span
			}
		}
	}
	t.kept.scales = t.net.Norm.Scale
	if t.kept.width = t.opt.Spec.Channels; t.opt.Novelty.Inputs {
		t.kept.inputs = make([]float64, len(t.kept.groups)*t.kept.width*novelty.InputsOf)
	}
	if means := t.detectorMeans(); means != nil {
		t.kept.means = len(means)
		t.kept.statistics = make([]float32, len(t.kept.groups)*len(means)*t.kept.width)
	}
	t.kept.level, err = t.level()
	return err
}

// newKeeper makes a keeper for sequences of these groups.
func newKeeper(f int, groups []int) *keeper {
	k := &keeper{f: f, of: make([]int, len(groups))}
	size := map[int]int{}
	var order []int
	for _, g := range groups {
		if size[g]++; size[g] == 1 {
			order = append(order, g)
		}
	}
	if len(groups) > detect.Most {
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	kept, total := map[int]bool{}, 0
	for _, g := range order {
		if total+size[g] <= detect.Most || len(kept) < 2 {
			kept[g] = true
			total += size[g]
		}
	}
	for i, g := range groups {
		k.of[i] = -1
		if kept[g] {
			k.of[i] = len(k.groups)
			k.groups = append(k.groups, g)
		}
	}
	return k
}

// level returns the share of predictions that may be novel. Too few sequences for this share are an error.
func (t *training) level() (float64, error) {
	o := t.opt.Novelty
	level, asked := o.Level, fmt.Sprintf("a share of %.3g of predictions", o.Level)
	perDay := 0.
	if o.AlarmsPerDay > 0 {
		if perDay = cmp.Or(o.PerDay, perDayOf(t.opt.Policy, t.report.Sampling.Rate)); perDay == 0 {
			return 0, fmt.Errorf("offline: %s: %.4g false alarms a day: how many predictions a day does a stream make? The policy %s and the sampling rate do not say", t.src.what, o.AlarmsPerDay, policyName(t.opt.Policy))
		}
		level = o.AlarmsPerDay / perDay
		asked = fmt.Sprintf("%.4g false alarms a day, of %.6g predictions a day, is a share of %.3g, which", o.AlarmsPerDay, perDay, level)
	}
	if level == 0 {
		return detect.DefaultLevel, nil
	}
	if level >= 1 {
		return 0, fmt.Errorf("offline: %s: %s: want less than one for each prediction", t.src.what, asked)
	}
	least := 1 / float64(len(t.kept.groups)+1)
	if float32(level) >= float32(least) { // as the detector compares
		return level, nil
	}
	fewest, more := fmt.Sprintf("a share of %.3g", least), ", or train on more"
	if 1/level > detect.Most {
		more = "" // no data set is so large
	}
	if perDay > 0 {
		fewest = fmt.Sprintf("%.4g a day", least*perDay)
	}
	return 0, datafile.InContent(fmt.Errorf("offline: %s: %s needs at least %.0f training sequences to be left out in turn, there are %d (at most %d are kept): with these the fewest false alarms that can be promised are %s; allow that, or predict less often%s", t.src.what, asked, math.Ceil(1/level)-1, len(t.kept.groups), detect.Most, fewest, more))
}

// perDayOf is how many predictions of whole sequences a stream makes in a day under a
// policy; 0: it depends on the stream.
func perDayOf(p reservoir.Policy, hertz float64) float64 {
	every := 0
	switch {
	case p.Kind == reservoir.Endless:
		every = p.Early
	case p.Kind == reservoir.Window:
		every = p.Hop
	case p.Kind == reservoir.Count:
		every = p.Length
	}
	if every == 0 {
		return 0
	}
	return 86400 * hertz / float64(every)
}

// bytes is the memory of a full keeper.
func (k *keeper) bytes() int64 {
	if k == nil {
		return 0
	}
	rows := len(k.groups) + 3*min(len(k.groups), detect.Learned) // gathered, and with as many that are spliced
	if k.spans != nil {
		rows += len(k.groups) // the first two thirds of the runs
	}
	return 4*int64(k.f)*int64(rows) + 4*int64(len(k.statistics))
}

// add takes the features of the next sequences.
func (k *keeper) add(features []float32) {
	if k == nil {
		return
	}
	if k.x == nil {
		k.x = make([]float32, len(k.groups)*k.f)
	}
	for ; len(features) > 0; features, k.at = features[k.f:], k.at+1 {
		if to := k.of[k.at]; to >= 0 {
			copy(k.x[to*k.f:], features[:k.f])
		}
	}
}

// see takes the samples of sequence i, and the statistics of the front end. Threads call it at the same time, for
// different sequences.
func (k *keeper) see(i int, samples, statistics []float32) {
	if k == nil || k.of[i] < 0 {
		return
	}
	if k.statistics != nil {
		to := k.statistics[k.of[i]*len(statistics):][:len(statistics)]
		copy(to, statistics)
		for c, scale := range k.scales {
			if scale == 0 { // the network does not see the channel either
				clear(to[c*k.means:][:k.means])
			}
		}
	}
	if k.inputs != nil {
		values := k.width * novelty.InputsOf
		detect.Statistics(k.inputs[k.of[i]*values:][:values], samples, k.scales, k.width)
	}
}

// fit learns the detector.
func (k *keeper) fit(ctx context.Context, soft *fit.Soft, splice detect.Splice, level float64, byPlace bool) (*novelty.Detector, *detect.Report, error) {
	o := detect.Options{Scale: soft.Scales, Groups: k.groups, Inputs: k.inputs, Level: level, ByPlace: byPlace, Spans: k.spans, Aside: k.aside, Statistics: k.statistics, Means: k.means}
	if byPlace {
		o.Splice, o.Classes = splice, k.labels
	}
	d, r, err := detect.Fit(ctx, k.x, len(k.groups), o)
	if err != nil {
		return nil, nil, err
	}
	return d, &r, nil
}

// detect adds a detector to the trained readout.
func (t *training) detect(ctx context.Context, linear *readout.Linear) (err error) {
	if t.kept == nil {
		return nil
	}
	start := time.Now()
	linear.Novelty, t.report.Novelty, err = t.kept.fit(ctx, fit.NewSoft(t.opt.Spec.SoftScaling(t.report.MedianLength)), t.opt.Spec.Splice(), t.kept.level, len(t.src.classes) > 1 && !t.opt.Novelty.alone())
	if err == nil {
		if linear.Novelty.Means != nil {
			t.front = t.withStatistics()
		}
		t.report.Novelty.Checks, err = checkDetector(ctx, linear.Novelty, t.net, t.front, t.inputs, t.plan.medianLength())
	}
	t.report.FitSeconds += time.Since(start).Seconds()
	if err != nil {
		return fmt.Errorf("offline: %s: %w", t.src.what, err)
	}
	return nil
}

// healthyOnly trains on only healthy data.
func (t *training) healthyOnly(ctx context.Context, progress archive.Progress) (*reservoir.Model, error) {
	if t.opt.Planned != nil {
		f := t.opt.Spec.FeatureCount()
		t.report.Plan = fit.Plan{Samples: len(t.examples.labels), Features: f, Passes: 1, Adding: t.src.bytes + t.kept.bytes() + collectorBytes(f, len(t.examples.labels), t.opt.threads())}
		t.report.Plan.Solving = t.report.Plan.Adding
		t.opt.Planned(t.report)
	}
	cast := func(done int64) { progress.Report(done, t.plan.work, "samples run") }
	_, err := t.run(ctx, t.src.sampleSource, t.plan, cast, func(features []float32) error {
		t.kept.add(features)
		return nil
	})
	if err != nil {
		return nil, err
	}
	f := t.opt.Spec.FeatureCount()
	linear := &readout.Linear{Classes: t.src.classes, Center: make([]float32, f), Weights: make([]float32, f), Intercept: []float32{-1}, Detects: true}
	if err := t.detect(ctx, linear); err != nil {
		return nil, err
	}
	return t.model(linear, fit.Report{Samples: len(t.examples.labels), Features: f})
}
