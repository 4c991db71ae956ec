package offline

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Retrain makes a model from only the training part of a data set, or from a whole recording in one or more files. It computes the constants of the input transform, draws the
// network from the seed, and runs all sequences through it: the policy cuts sequences from every series, each with a
// reset state. One pass is enough, unless features are clipped and too many to be kept (fit.Plan.Passes). Then
// Retrain learns a linear classifier of the features at the ends of sequences, the ridge classifier or the
// discriminant. A sequence has its series' class, and leave-one-out leaves out all sequences of a series. The policy
// endless closes no sequence, so every early prediction is learned from. Under gap a series is one sequence, because
// series have no times. The same data and options give the same model on any number of threads, engine and amd64
// processor. On other architectures the network is still the same, but the readout may differ in its last bits:
// compilers fuse float64 products and sums on these architectures.
//
// A missing value holds the previous value in its channel; at the beginning of a sequence (of a series, if windows
// overlap) it is the channel's training mean (0 if the network does not standardize).
//
// Of a recording the streams are cut as in the live stage. A sequence has a label if all its samples have this label; a
// sequence with several labels, or none, is left out and counted. Leave-one-out leaves out together all sequences of
// one labeled part of a stream with one label, or of one sequence under the policies marked and gap, which separate
// sequences. The input transform's constants come from the labeled samples; from all samples if a LabelFile labels
// predictions. The files are read three times, a row group at a time. In addition, memory holds the samples of open
// sequences, at most 2^30 values.
//
// progress may be nil. A canceled ctx ends the training with ctx's error.
func Retrain(ctx context.Context, data archive.Data, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	src, unlabeled, err := openTraining(ctx, data, opt)
	if err != nil {
		return nil, RetrainReport{}, err
	}
	m, report, err := retrain(ctx, src, opt.withDefaults(len(src.channels)), progress)
	if _, set := data.(*archive.Dataset); set {
		report.Unlabeled = unlabeled
	}
	return m, report, err
}

// openTraining opens the training part of data. unlabeled is the number of series without a label that were left out.
func openTraining(ctx context.Context, data archive.Data, opt RetrainOptions) (src labeledData, unlabeled int, err error) {
	rule, parts, err := parseGroups(opt.Groups, opt.Parts)
	if err != nil {
		return src, 0, err
	}
	if f, ok := data.(archive.RecordingFiles); ok {
		src, err = openRecording(ctx, f, opt, rule, parts)
		return src, 0, err
	}
	d, err := divideDataset(data.(*archive.Dataset), parts)
	if err != nil {
		return src, 0, err
	}
	if src, unlabeled, err = trainingPart(d, opt.Novelty); err != nil {
		return src, 0, err
	}
	if err = src.mergeClasses(opt.Merges); err != nil {
		err = datafile.InContent(err)
	}
	src.sites = groups.NewTable(rule)
	return src, unlabeled, err
}

// openRecording is openTraining of a recording.
func openRecording(ctx context.Context, from archive.RecordingFiles, opt RetrainOptions, rule *groups.Rule, parts *groups.Parts) (src labeledData, err error) {
	src, err = openLabeled(ctx, from, opt.Target, rule)
	if err == nil {
		if err = src.mergeClasses(opt.Merges); err != nil {
			err = datafile.InContent(err)
		}
	}
	if err == nil {
		src.sampleSource, err = inPart(src.sampleSource, len(src.channels), parts, archive.Train)
	}
	if err == nil && len(src.classes) == 0 && !opt.Novelty.all() {
		err = datafile.InContent(fmt.Errorf("offline: %s has no labels: a CSV recording has them in a column label, on every sample whose class is known; --labels takes them from a file", src.what))
	}
	return src, err
}

// trainingPart lists the labeled training series.
func trainingPart(d *archive.Dataset, o *NoveltyOptions) (src labeledData, unlabeled int, err error) {
	if err := checkNumeric(d); err != nil {
		return src, 0, err
	}
	t := &seriesSource{d: d}
	for _, i := range d.Part(archive.Train) {
		if d.Series[i].Label < 0 && !o.all() {
			unlabeled++
			continue
		}
		t.series = append(t.series, i)
	}
	if len(t.series) == 0 {
		return src, 0, fmt.Errorf("offline: data set %q has no labeled training series", d.Name)
	}
	return labeledData{
		sampleSource: t, what: fmt.Sprintf("data set %q", d.Name), name: d.Name, channels: d.Channels, classes: d.Classes, target: d.Target,
		fingerprint: func() string { return d.Fingerprint(archive.Train) }, bytes: 4 * d.CountValues(),
	}, unlabeled, nil
}

func retrain(ctx context.Context, src labeledData, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	fail := func(err error) (*reservoir.Model, RetrainReport, error) { return nil, RetrainReport{}, err }
	if err := opt.Novelty.check(opt); err != nil {
		return fail(err)
	}
	if opt.Novelty.alone() {
		var err error
		if src, err = opt.Novelty.healthy(src); err != nil {
			return fail(datafile.InContent(err))
		}
	}
	t, err := newTraining(ctx, src, opt)
	if err != nil {
		return fail(err)
	}
	if err := t.keep(); err != nil {
		return fail(err)
	}
	if opt.Novelty.alone() {
		m, err := t.healthyOnly(ctx, progress)
		return m, t.report, err
	}
	m, err := t.learn(ctx, progress)
	if err == nil {
		err = t.decide(ctx, m, progress)
	}
	if err != nil {
		return fail(err)
	}
	return m, t.report, nil
}

// learn makes the model.
func (t *training) learn(ctx context.Context, progress archive.Progress) (*reservoir.Model, error) {
	l, err := t.learner(0, len(t.examples.labels))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if t.opt.Planned != nil {
		t.opt.Planned(t.report)
	}
	cast := newForecast(progress, l.Plan(), int64(l.Plan().Passes)*t.plan.work, t.plan.points)
	if err := t.measure(ctx, l, cast); err != nil {
		return nil, err
	}
	if err := t.feed(ctx, l, t.src.sampleSource, t.plan, cast); err != nil {
		return nil, err
	}
	return t.finish(ctx, l, cast)
}

// training is a planned job.
type training struct {
	src      labeledData
	opt      RetrainOptions
	plan     *plan
	examples trainingOrder
	net      *reservoir.Network
	front    *reservoir.Front // nil: none
	inputs   []reservoir.InputRange
	kept     *keeper // training data of a detector; nil: no detector

	statistics []float32           // of each example, for random features or segments; nil: none
	segments   *reservoir.Segments // to compare with the network; nil: none

	report RetrainReport
}

// newTraining reads the material once.
func newTraining(ctx context.Context, src labeledData, opt RetrainOptions) (*training, error) {
	if err := checkTraining(src, opt); err != nil {
		return nil, err
	}
	src.every = opt.TrainHop
	seen := newInputs(len(src.channels))
	pl, err := makePlan(ctx, src, opt.Policy, true, opt.Front.decimation(), seen.add)
	if err == nil && opt.most > 0 && pl.points > opt.most {
		src.share = float64(opt.most) / float64(pl.points)
		pl, err = makePlan(ctx, src, opt.Policy, true, opt.Front.decimation(), nil)
	}
	if err == nil {
		err = cmp.Or(pl.checkSites(src.what), pl.check(src.what))
	}
	if err != nil {
		return nil, err
	}
	median := pl.medianLength()
	opt.Spec = opt.Spec.ForLength(median)
	net, err := reservoir.Draw(opt.Spec)
	if err != nil {
		return nil, err
	}
	net.Norm = seen.statistics.Norm(opt.Spec)
	t := &training{src: src, opt: opt, plan: pl, examples: pl.trainingOrder(src.classes, src.target != ""), net: net, inputs: seen.statistics.Ranges(), report: pl.report(src.name)}
	t.examples.capNumbers(opt.Cap)
	t.report.TrainHop = opt.TrainHop
	t.report.Groups, t.report.Divided = t.examples.count, t.examples.divided
	if t.report.ByGroup, err = t.examples.byGroup(pl, src); err != nil {
		return nil, err
	}
	if opt.Spec.Kind == reservoir.Mixed {
		t.report.MedianLength = median
	}
	t.report.Sampling = t.sampling()
	if err := t.setFront(ctx); err != nil {
		return nil, err
	}
	if err := t.setSegments(); err != nil {
		return nil, err
	}
	t.keepStatistics()
	return t, nil
}

// sampling is the sampling rate of the options, otherwise of the times.
func (t *training) sampling() Sampling {
	if t.opt.Rate > 0 {
		return Sampling{Rate: t.opt.Rate}
	}
	hertz := t.plan.pulse.rate()
	if timeunit.CheckRate(hertz) != nil {
		return Sampling{} // none, or times that are none
	}
	return Sampling{hertz, t.plan.pulse.longestInterval()}
}

// readout returns the options of the readout, within the memory left by other data.
func (t *training) readout(origins []int, beside int64) fit.Options {
	o := &t.opt
	priors, _ := o.Priors.in("priors", t.src.classes) // checkTraining refuses wrong priors
	return fit.Options{
		Alphas: o.Alphas, Standardize: !o.RawFeatures, Soft: fit.NewSoft(o.Spec.SoftScaling(t.report.MedianLength)), Discriminant: !o.RidgeOnly,
		Groups: origins, Outer: t.examples.sites, Memory: max(1, cmp.Or(o.Memory, DefaultMemory)-beside),
		Coverage: o.Coverage, CoverageByClass: o.CoverageByClass, Priors: priors, Left: o.Early != nil || o.adaptive != 0, Numbers: t.examples.numbers, Clip: o.Clip,
		MaxError: o.MaxError, Confidence: o.Confidence, ClassWeights: o.Weights.of(t.src.classes, t.examples.labels),
	}
}

// learner is for the examples [from, to).
func (t *training) learner(from, to int) (*fit.Learner, error) {
	f := t.opt.Spec.FeatureCount()
	beside := t.src.bytes + t.kept.bytes() + t.statisticsBytes() + collectorBytes(f, len(t.examples.labels), t.opt.threads())
	l, err := fit.NewPart(f, t.src.classes, t.examples.labels, from, to, t.readout(t.examples.groups, beside))
	if err != nil {
		return nil, fmt.Errorf("offline: %s, which takes %s itself: %w", t.src.what, fit.Size(beside), err)
	}
	t.report.Plan = l.Plan()
	t.report.Plan.Adding += beside
	t.report.Plan.Solving += beside
	return l, nil
}

// measure runs all sequences through the network for a learner that needs all features before the first is added.
func (t *training) measure(ctx context.Context, l *fit.Learner, cast *forecast) error {
	if l.Plan().Passes < 2 {
		return nil
	}
	_, err := t.run(ctx, t.src.sampleSource, t.plan, cast.ran, l.Measure)
	cast.passed()
	return err
}

// feed runs the source of a plan through the network and gives the features to
// the learner of its examples.
func (t *training) feed(ctx context.Context, l *fit.Learner, sampleSource sampleSource, pl *plan, cast *forecast) (err error) {
	t.report.Missing, err = t.run(ctx, sampleSource, pl, cast.ran, func(features []float32) error {
		cast.adding()
		t.kept.add(features)
		err := l.Add(features)
		cast.added(len(features) / t.opt.Spec.FeatureCount())
		return err
	})
	return err
}

// run runs the source of a plan through the network and hands the features on in
// the order of the plan's examples.
func (t *training) run(ctx context.Context, sampleSource sampleSource, pl *plan, ran func(samples int64), take func(features []float32) error) (missing int64, err error) {
	start := time.Now()
	arrival := make([]int, len(pl.examples))
	for _, example := range pl.examples {
		arrival[example.point] = example.arrival
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := newCollector(ctx, t.opt.Spec.FeatureCount(), pl.points, t.opt.threads(), take)
	missing, err = pass{
		EngineOptions: t.opt.EngineOptions, net: t.net, rules: track.Rules{Mean: t.first(), Front: t.withStatistics()},
		take: func(e reservoir.Engine, slot int32, s *cutSequence, p *point, _ []float32) error {
			t.kept.see(arrival[p.k], s.values[:p.rows*int64(t.opt.Spec.Channels)], p.statistics)
			t.seeStatistics(arrival[p.k], p.statistics)
			return c.put(arrival[p.k], func(row []float32) error { return e.Features(slot, row) })
		},
	}.run(ctx, sampleSource, pl, ran)
	t.report.StateSeconds += time.Since(start).Seconds()
	if err != nil {
		return missing, fmt.Errorf("offline: %s: %w", t.src.what, err)
	}
	return missing, nil
}

// finish solves for the readout and makes the model.
func (t *training) finish(ctx context.Context, l *fit.Learner, cast *forecast) (*reservoir.Model, error) {
	start := time.Now()
	if !l.Plan().Kernel {
		runtime.GC() // the memory of the pass makes room for the solver
	}
	opt := t.readout(nil, 0)
	opt.Progress = cast.solving
	linear, fit, err := l.Solve(ctx, opt)
	if err != nil {
		return nil, fmt.Errorf("offline: %s: %w", t.src.what, err)
	}
	if linear, fit, err = t.chooseRandom(ctx, linear, fit); err != nil {
		return nil, err
	}
	if linear, fit, err = t.chooseSegments(ctx, linear, fit); err != nil {
		return nil, err
	}
	t.report.FitSeconds = time.Since(start).Seconds()
	if err := t.detect(ctx, linear); err != nil {
		return nil, err
	}
	return t.model(linear, fit)
}

// model returns the model with a trained readout.
func (t *training) model(linear *readout.Linear, fit fit.Report) (*reservoir.Model, error) {
	linear.Name = t.opt.Readout
	if linear.Interval != nil {
		linear.Interval.Cap = t.opt.Cap
	}
	t.report.Readout = fit
	if fit.Numbers != nil {
		t.report.ByGroup = nil // the report counts right classes
	}
	if fit.Outer != nil {
		t.report.ByGroup = leftOut(t.report.ByGroup, t.plan.sites, fit.Outer)
	}
	m := newModel(t.src, t.net, linear, t.inputs, t.report, t.opt)
	m.Front = t.front
	return m, m.Validate()
}

// report describes the training data.
func (pl *plan) report(name string) RetrainReport {
	return RetrainReport{
		Dataset: name, Series: pl.streams, Samples: pl.samples,
		Sequences: pl.points, MinLength: pl.shortest, MaxLength: pl.farthest,
		Unused: pl.rest, Mixed: pl.mixed, Unlabeled: pl.unlabeled, Empty: pl.empty, Silent: pl.silent(),
	}
}

func newModel(src labeledData, net *reservoir.Network, linear *readout.Linear, inputs []reservoir.InputRange, r RetrainReport, opt RetrainOptions) *reservoir.Model {
	return &reservoir.Model{
		Network: net, Readouts: []*readout.Linear{linear}, Policy: opt.Policy, Channels: slices.Clone(src.channels),
		Training: reservoir.Training{
			Dataset: src.name, Fingerprint: src.fingerprint(), Series: r.Series, Samples: r.Samples,
			MinLength: int(r.MinLength), MaxLength: int(r.MaxLength), Alpha: r.how(opt), Tool: opt.Tool, Inputs: inputs,
			Rate: r.Sampling.Rate, LongestInterval: r.Sampling.Longest,
		},
	}
}
