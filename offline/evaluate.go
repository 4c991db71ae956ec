package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/eusn-stream/eusn-stream/internal/abstain"
	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/monitor"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/quality"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// EvaluateOptions select data and settings of an evaluation.
type EvaluateOptions struct {
	EngineOptions
	Split   archive.Split // zero: the test part
	Readout string        // "": the model's first readout
	// RateTolerance is the stage's: the share by which a sequence's sampling rate may differ from the model's. 0:
	// monitor.DefaultTolerance; negative: any.
	RateTolerance float64
	// Adaptive, if not 0, also reports sets with thresholds moved by labels at this rate, or intervals with edges
	// moved by true numbers, in the order of the predictions; see package adaptive. LabelDelay is the number of
	// further predictions before a label comes.
	Adaptive   float64
	LabelDelay int
	Groups     *groups.Rule  // groups for accuracies; nil: none, or the groups of Parts
	Parts      *groups.Parts // groups of each part; nil: the archive's parts, and all of a recording
}

// Evaluation is the result of a readout on one part of a data set, or on a recording.
type Evaluation struct {
	Dataset     string           `json:"dataset"`
	Split       archive.Split    `json:"split,omitempty"` // empty for a recording
	Fingerprint string           `json:"fingerprint"`     // of the data, see Dataset.Fingerprint
	Model       string           `json:"model"`           // fingerprint of the model
	Readout     string           `json:"readout"`
	Policy      reservoir.Policy `json:"policy"`         // of the model: how the series were cut
	Classes     []string         `json:"classes"`        // the readout's, in its order
	Series      int              `json:"series"`         // all of the part; of a recording: its streams
	Sequences   int              `json:"sequences"`      // predictions counted below: predictions that close a sequence; early ones under the policy endless, which closes no sequence
	Mixed       int              `json:"mixed,omitzero"` // sequences with several labels
	Labelled    int              `json:"labelled"`       // sequences with a known class; all following fields count only these
	Unused      int64            `json:"unused_samples"` // samples after the last prediction of their series
	Missing     int64            `json:"missing"`        // values filled, see Retrain
	Empty       int              `json:"empty"`          // series without a single value, predicted all the same

	// Counts of an evaluation.
	Correct   int     `json:"correct"`           // predictions equal to the label
	Accuracy  float64 `json:"accuracy"`          // Correct / Labelled, 0 if Labelled is 0
	Balanced  float64 `json:"balanced_accuracy"` // mean over the classes present of the share recognised
	Confusion [][]int `json:"confusion"`         // sequences of class row predicted as class column

	Numbers *quality.Numbers `json:"numbers,omitempty"` // of a regression, which has no accuracy; nil if no number is known, or classes are predicted

	Answers *abstain.Count `json:"answers,omitempty"` // nil if nothing is labelled, or the readout answers always

	Adaptive        *adaptive.Report  `json:"adaptive,omitempty"`         // nil: EvaluateOptions.Adaptive was 0, or nothing is labelled, or numbers are predicted
	AdaptiveNumbers *adaptive.Numbers `json:"adaptive_numbers,omitempty"` // the same for numbers

	Sets *quality.Sets `json:"sets,omitempty"` // nil if nothing is labelled, or the readout makes no sets

	Quality     *quality.Report `json:"quality,omitempty"`  // nil if nothing is labelled
	ByGroup     *groups.Report  `json:"by_group,omitempty"` // nil: EvaluateOptions.Groups was
	Novelty     *NoveltyCount   `json:"novelty,omitempty"`  // nil if the readout has no detector
	Early       *EarlyCount     `json:"early,omitempty"`    // nil without early predictions, or if these are counted above
	Flagged     map[string]int  `json:"flagged,omitempty"`  // predictions that carry a flag of unlikeness to the training, by its name; early ones, too
	Predictions []Prediction    `json:"-"`                  // all, with the predictions of a series in order

	detects bool // the readout only detects: class 1 is everything except class 0
}

// EarlyCount counts early predictions.
type EarlyCount struct {
	Predictions int     `json:"predictions"`
	Labelled    int     `json:"labelled"`
	Correct     int     `json:"correct"`
	Accuracy    float64 `json:"accuracy"` // Correct / Labelled, 0 if Labelled is 0

	Decided *EarlyReport `json:"decided,omitempty"` // nil if the readout has no rule for sufficient prefixes
}

// Evaluate makes the stage's predictions for every series of one part of d, each series as its own stream: the
// model's policy cuts the series, each sequence begins from a reset state, and early predictions are made if the
// policy has them. Under gap a series is one sequence, because series have no times. Scores are the engine's own, so
// they equal the live stage's scores of the same samples bit for bit. The data set needs the model's channels by name
// and order, and only classes of the readout. Missing values are filled as in Retrain.
func Evaluate(ctx context.Context, m *reservoir.Model, d *archive.Dataset, opt EvaluateOptions, progress archive.Progress) (*Evaluation, error) {
	if opt.Split == "" {
		opt.Split = archive.Test
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if err := checkNumeric(d); err != nil {
		return nil, err
	}
	rule, err := withParts(opt.Groups, opt.Parts)
	if err == nil {
		d, err = divideDataset(d, opt.Parts)
	}
	if err == nil {
		d, err = datasetFor(d, m, opt.Readout)
	}
	if err != nil {
		return nil, err
	}
	src := labelledData{what: fmt.Sprintf("data set %q", d.Name), name: d.Name, channels: d.Channels, classes: d.Classes, target: d.Target}
	src.fingerprint = func() string { return d.Fingerprint(opt.Split) }
	t := &seriesSource{d: d, series: d.Part(opt.Split)}
	ev, err := newEvaluation(m, src, opt)
	if err != nil {
		return nil, err
	}
	if len(t.series) == 0 {
		return nil, fmt.Errorf("offline: data set %q has no %s part", d.Name, opt.Split)
	}
	t.class, src.sampleSource, src.sites = ev.index(d.Classes), t, groups.NewTable(rule)
	if err := ev.run(ctx, m, src, opt, progress); err != nil {
		return nil, err
	}
	return ev, nil
}

// newEvaluation holds material against the model.
func newEvaluation(m *reservoir.Model, src labelledData, opt EvaluateOptions) (*Evaluation, error) {
	linear, err := chooseReadout(m, opt.Readout)
	if err != nil {
		return nil, err
	}
	if opt.Adaptive != 0 && linear.Coverage == nil && linear.Interval == nil {
		return nil, fmt.Errorf("offline: sets that adapt, and a model without sets of classes: train it with a coverage")
	}
	if err := matchModel(m, linear, src); err != nil {
		return nil, datafile.InContent(err)
	}
	ev := &Evaluation{
		Dataset: src.name, Split: opt.Split, Fingerprint: src.fingerprint(), Readout: linear.Name,
		Policy: m.Policy, Classes: linear.Classes, detects: linear.Detects,
	}
	ev.Model, err = m.Fingerprint()
	return ev, err
}

// index maps classes to the readout's classes.
func (ev *Evaluation) index(classes []string) []int {
	class := make([]int, len(classes))
	for i, name := range classes {
		if class[i] = names.ClassIndex(ev.Classes, name); class[i] < 0 {
			class[i] = len(ev.Classes) // allowed by matchModel if there is a detector
			if ev.detects {
				class[i] = 1
			}
		}
	}
	return class
}

// run makes and counts all predictions.
func (ev *Evaluation) run(ctx context.Context, m *reservoir.Model, src labelledData, opt EvaluateOptions, progress archive.Progress) error {
	linear, err := chooseReadout(m, opt.Readout)
	if err != nil {
		return err
	}
	pl, err := makePlan(ctx, src, m.Policy, false, m.Front, nil)
	if err == nil {
		err = cmp.Or(pl.checkSites(src.what), pl.check(src.what))
	}
	if err != nil {
		return err
	}
	ev.Series, ev.Unused, ev.Empty = pl.streams, pl.rest, pl.empty
	ev.Predictions = make([]Prediction, pl.points)
	mixed, sites := make([]bool, pl.points), make([]int, pl.points)
	var scorers sync.Pool // one for each thread
	readouts := []*readout.Linear{linear}
	if linear.Prefixes != nil {
		readouts = append(readouts, linear.Prefixes.Linear)
	}
	ev.Missing, err = pass{
		EngineOptions: opt.EngineOptions, net: m.Network, readouts: readouts,
		rules: track.Rules{Mean: m.FirstMissing(), Front: m.Front, Training: m.Training, RateTolerance: cmp.Or(opt.RateTolerance, monitor.DefaultTolerance)},
		take: func(e reservoir.Engine, slot int32, s *cutSequence, p *point, scores []float32) error {
			of := linear.For(p.early)
			if n := linear.Columns(); of != linear {
				scores = scores[n:]
			} else {
				scores = scores[:n]
			}
			mixed[p.k], sites[p.k] = p.mixed, p.site
			pr := Prediction{
				ID: s.id, Position: p.to, Samples: int(p.samples()), Label: p.label,
				Answer: outcome.Answer{Flags: p.flags},
			}
			seen := readout.Seen{Samples: p.samples()}
			if m.Policy.Whole(p.early) {
				if err := judgeSlot(&seen, linear, &scorers, e, slot); err != nil {
					return err
				}
			}
			linear.Answer(&pr.Answer, slices.Clone(scores), seen, nil)
			if pr.Label == len(ev.Classes) {
				pr.Label, pr.Unknown = -1, true
			}
			if linear.Interval != nil {
				pr.Truth = p.number
			}
			ev.Predictions[p.k] = pr
			return nil
		},
	}.run(ctx, src.sampleSource, pl, func(done int64) { progress.Report(done, pl.work, "samples run") })
	if err != nil {
		return err
	}
	return ev.measure(linear, opt, pl, mixed, sites)
}

// measure fills in the figures of the predictions. mixed and sites are by prediction: a flag for samples with several
// labels, and the site of the stream.
func (ev *Evaluation) measure(linear *readout.Linear, opt EvaluateOptions, pl *plan, mixed []bool, sites []int) (err error) {
	ev.count()
	ev.Novelty = ev.novelty(linear)
	if ev.Early != nil {
		ev.Early.Decided = ev.decided(linear)
	}
	if linear.Interval != nil {
		ev.Numbers = numbersOf(ev.Predictions, ev.Counts)
		return ev.adapt(linear, opt)
	}
	if ev.Quality, ev.Sets, err = ev.quality(linear); err != nil {
		return err
	}
	ev.Answers = ev.answers(linear)
	if err := ev.adapt(linear, opt); err != nil {
		return err
	}
	for k := range mixed {
		if mixed[k] && ev.Counts(&ev.Predictions[k]) {
			ev.Mixed++
		}
	}
	ev.ByGroup = ev.byGroup(pl, sites)
	return nil
}

func chooseReadout(m *reservoir.Model, name string) (*readout.Linear, error) {
	var names []string
	for _, h := range m.Readouts {
		if name == "" || h.Name == name {
			return h, nil
		}
		names = append(names, h.Name)
	}
	if name == "" {
		return nil, fmt.Errorf("offline: the model has no readout, want a trained one")
	}
	return nil, fmt.Errorf("offline: the model has no readout %q, it has %q", name, names)
}

// matchModel holds channels and classes of the material against the model's.
func matchModel(m *reservoir.Model, linear *readout.Linear, src labelledData) error {
	if got, want := len(src.channels), len(m.Channels); got != want {
		return fmt.Errorf("offline: the model reads %d channels, %s has %d", want, src.what, got)
	}
	if !slices.Equal(src.channels, m.Channels) {
		return fmt.Errorf("offline: the model reads channels %q, %s has %q: want the same names in the same order", m.Channels, src.what, src.channels)
	}
	for _, c := range src.classes {
		if names.ClassIndex(linear.Classes, c) < 0 && linear.Novelty == nil { // an unknown class is new
			return fmt.Errorf("offline: class %q of %s is not among the %d classes of readout %q", c, src.what, len(linear.Classes), linear.Name)
		}
	}
	return nil
}

// Counts reports whether a prediction is one of Sequences.
func (ev *Evaluation) Counts(p *Prediction) bool {
	return ev.Policy.Whole(p.Early())
}

// countFlags counts the flags of predictions unlike the training.
func (ev *Evaluation) countFlags(p *Prediction) {
	for _, f := range []outcome.Flag{outcome.FlagOutOfRange, outcome.FlagFlat, outcome.FlagLength, outcome.FlagRate} {
		if p.Flags&f != 0 {
			if ev.Flagged == nil {
				ev.Flagged = map[string]int{}
			}
			ev.Flagged[f.String()]++
		}
	}
}

// count fills in all figures that follow from the predictions.
func (ev *Evaluation) count() {
	if !ev.numeric() {
		ev.Confusion = make([][]int, len(ev.Classes))
	}
	for i := range ev.Confusion {
		ev.Confusion[i] = make([]int, len(ev.Classes))
	}
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		ev.countFlags(p)
		if !ev.Counts(p) {
			ev.countEarly(p)
			continue
		}
		ev.Sequences++
		if p.Label < 0 {
			continue
		}
		ev.Labelled++
		if ev.numeric() {
			continue
		}
		ev.Confusion[p.Label][p.Class]++
		if p.Label == int(p.Class) {
			ev.Correct++
		}
	}
	if e := ev.Early; e != nil && e.Labelled > 0 {
		e.Accuracy = float64(e.Correct) / float64(e.Labelled)
	}
	if ev.Labelled == 0 || ev.numeric() {
		return
	}
	ev.Accuracy = float64(ev.Correct) / float64(ev.Labelled)
	present := 0
	for i, row := range ev.Confusion {
		total := 0
		for _, n := range row {
			total += n
		}
		if total > 0 {
			present++
			ev.Balanced += float64(row[i]) / float64(total)
		}
	}
	ev.Balanced /= float64(present)
}

// quality measures the counted predictions.
func (ev *Evaluation) quality(linear *readout.Linear) (*quality.Report, *quality.Sets, error) {
	if ev.Labelled == 0 {
		return nil, nil, nil
	}
	var labels []int
	var sets [][]int32
	var scores []float64
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		if !ev.Counts(p) || p.Label < 0 {
			continue
		}
		labels, sets = append(labels, p.Label), append(sets, p.Set)
		if len(p.Scores) == 1 { // of two classes
			scores = append(scores, 0)
		}
		for _, s := range p.Scores {
			scores = append(scores, float64(s))
		}
	}
	q, err := quality.New(ev.Classes, labels, scores, linear.Temperature)
	if err != nil || linear.Coverage == nil {
		return q, nil, err
	}
	s, err := quality.OfSets(ev.Classes, labels, func(i int) []int32 { return sets[i] })
	return q, s, err
}

// answers counts the answers among the counted predictions.
func (ev *Evaluation) answers(linear *readout.Linear) *abstain.Count {
	if ev.Labelled == 0 || linear.Abstain == nil {
		return nil
	}
	of := ev.labelled()
	return abstain.Of(len(of), func(i int) bool { return of[i].Flags&outcome.FlagAbstain == 0 }, func(i int) bool { return int(of[i].Class) == of[i].Label })
}

// adapt lets the labels of the predictions that are counted move the thresholds of their
// sets, or the edges of their intervals.
func (ev *Evaluation) adapt(linear *readout.Linear, opt EvaluateOptions) (err error) {
	switch of := ev.labelled(); {
	case opt.Adaptive == 0 || len(of) == 0:
	case linear.Interval != nil:
		ev.AdaptiveNumbers, err = adaptNumbers(linear.Interval, of, opt.Adaptive, opt.LabelDelay)
	default:
		ev.Adaptive, err = adaptSets(linear, of, opt.Adaptive, opt.LabelDelay)
	}
	return err
}

// Adapted returns m, the evaluated model, with the thresholds or the interval after the last label. An error reports
// that EvaluateOptions.Adaptive was 0, or nothing is labelled. m is not changed.
func (ev *Evaluation) Adapted(m *reservoir.Model) (*reservoir.Model, error) {
	linear, err := chooseReadout(m, ev.Readout)
	if err != nil {
		return nil, err
	}
	next, l := *m, *linear
	switch {
	case ev.Adaptive != nil:
		l.Coverage = fit.ActingCoverage(l.Coverage, ev.Adaptive.Share)
	case ev.AdaptiveNumbers != nil:
		l.Interval = fit.MoveInterval(l.Interval, ev.AdaptiveNumbers.Low, ev.AdaptiveNumbers.High)
	default:
		return nil, fmt.Errorf("offline: %s: no label has moved a threshold or an interval: want labels, or numbers, and a rate", ev.Dataset)
	}
	next.Readouts = slices.Clone(m.Readouts)
	next.Readouts[slices.Index(next.Readouts, linear)] = &l
	return &next, next.Validate()
}

// labelled returns the counted predictions with a known class.
func (ev *Evaluation) labelled() (of []*Prediction) {
	for i := range ev.Predictions {
		if p := &ev.Predictions[i]; ev.Counts(p) && p.Label >= 0 {
			of = append(of, p)
		}
	}
	return of
}

func (ev *Evaluation) countEarly(p *Prediction) {
	if ev.Early == nil {
		ev.Early = new(EarlyCount)
	}
	ev.Early.Predictions++
	if p.Label >= 0 {
		ev.Early.Labelled++
		if p.Label == int(p.Class) && !ev.numeric() {
			ev.Early.Correct++
		}
	}
}

// numeric reports whether the readout is a regression.
func (ev *Evaluation) numeric() bool { return len(ev.Classes) == 1 }
