package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/monitor"
	"github.com/eusn-stream/eusn-stream/internal/names"
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
	Merges        map[string]string // classes of the data that count as another class, as RetrainOptions.Merges; nil: none
	Groups        string            // rule of groups for accuracies, as RetrainOptions.Groups; "": none, or the groups of Parts
	Parts         []byte            // JSON of the groups of each part, as RetrainOptions.Parts; nil: the archive's parts, and all of a recording
}

// Evaluate makes the stage's predictions for every series of one part of a data set, each series as its own stream: the
// model's policy cuts the series, each sequence begins from a reset state, and early predictions are made if the
// policy has them. Under gap a series is one sequence, because series have no times. Scores are the engine's own, so
// they equal the live stage's scores of the same samples bit for bit. The data set needs the model's channels by name
// and order, and only classes of the readout. Missing values are filled as in Retrain.
//
// Of a recording in one or more files Evaluate makes every prediction of a stage on these streams. If the files are
// Recorded, predictions also have the flags of lost, late and unusable messages.
//
// progress may be nil. A canceled ctx ends the evaluation with ctx's error.
func Evaluate(ctx context.Context, m *reservoir.Model, data archive.Data, opt EvaluateOptions, progress archive.Progress) (*Evaluation, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	rule, parts, err := parseGroups(opt.Groups, opt.Parts)
	if err != nil {
		return nil, err
	}
	if f, ok := data.(archive.RecordingFiles); ok {
		return evaluateFiles(ctx, m, f, opt, rule, parts, progress)
	}
	if opt.Split == "" {
		opt.Split = archive.Test
	}
	d := data.(*archive.Dataset)
	if err = checkNumeric(d); err == nil {
		d, err = divideDataset(d, parts)
	}
	if err == nil {
		d, err = datasetFor(d, m, opt.Readout)
	}
	if err != nil {
		return nil, err
	}
	src := labeledData{what: fmt.Sprintf("data set %q", d.Name), name: d.Name, channels: d.Channels, classes: merges(opt.Merges).rename(d.Classes), target: d.Target}
	src.fingerprint = func() string { return d.Fingerprint(opt.Split) }
	t := &seriesSource{d: d, series: d.Part(opt.Split)}
	ev, err := newEvaluation(m, src, opt)
	if err != nil {
		return nil, err
	}
	if len(t.series) == 0 {
		return nil, fmt.Errorf("offline: data set %q has no %s part", d.Name, opt.Split)
	}
	t.class, src.sampleSource, src.sites = ev.index(src.classes), t, groups.NewTable(rule)
	if err := ev.run(ctx, m, src, opt, progress); err != nil {
		return nil, err
	}
	return ev, nil
}

// evaluateFiles is Evaluate on a recording.
func evaluateFiles(ctx context.Context, m *reservoir.Model, from archive.RecordingFiles, opt EvaluateOptions, rule *groups.Rule, parts *groups.Parts, progress archive.Progress) (*Evaluation, error) {
	src, err := openEvaluated(ctx, m, from, rule, opt)
	if err != nil {
		return nil, err
	}
	src.classes = merges(opt.Merges).rename(src.classes)
	if opt.Split = cmp.Or(opt.Split, archive.Test); parts == nil {
		opt.Split = "" // a recording is one part
	}
	ev, err := newEvaluation(m, src, opt)
	if err != nil {
		return nil, err
	}
	// From here on classes are the readout's.
	labels := src.sampleSource.(*recordingSource).class
	class := ev.index(src.classes)
	for label, i := range labels {
		labels[label] = class[i]
	}
	if src.sampleSource, err = inPart(src.sampleSource, len(src.channels), parts, opt.Split); err != nil {
		return nil, err
	}
	if err := ev.run(ctx, m, src, opt, progress); err != nil {
		return nil, err
	}
	return ev, nil
}

// openEvaluated opens a recording for a model, with or without the model's target.
func openEvaluated(ctx context.Context, m *reservoir.Model, from archive.RecordingFiles, rule *groups.Rule, opt EvaluateOptions) (labeledData, error) {
	target, err := ofModel(m, opt.Readout)
	if err != nil {
		return labeledData{}, err
	}
	column := ""
	if target != "" && len(from.Paths) > 0 && archive.HasColumn(from.Paths[0], target) {
		column = target
	}
	src, err := openLabeled(ctx, from, column, rule)
	if err == nil && target != "" { // labels do not apply to numbers
		src.target, src.classes = target, []string{target}
		clear(src.sampleSource.(*recordingSource).class)
	}
	return src, err
}

// newEvaluation holds material against the model.
func newEvaluation(m *reservoir.Model, src labeledData, opt EvaluateOptions) (*Evaluation, error) {
	linear, err := chooseReadout(m, opt.Readout)
	if err != nil {
		return nil, err
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

// run makes and counts all predictions.
func (ev *Evaluation) run(ctx context.Context, m *reservoir.Model, src labeledData, opt EvaluateOptions, progress archive.Progress) error {
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
				ID: s.id, Position: p.to, Samples: int(p.samples()), Label: p.label, Time: p.time, Seq: p.last.seq, Part: p.last.part,
				Answer: outcome.Answer{Flags: p.flags},
			}
			seen := readout.Seen{Samples: p.samples(), Statistics: p.statistics}
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
				pr.Truth = p.last.number
			}
			ev.Predictions[p.k] = pr
			return nil
		},
	}.run(ctx, src.sampleSource, pl, func(done int64) { progress.Report(done, pl.work, "samples run") })
	if err != nil {
		return err
	}
	return ev.measure(linear, pl, mixed, sites)
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
func matchModel(m *reservoir.Model, linear *readout.Linear, src labeledData) error {
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

// ofModel is the target of the numbers of a model's readout; empty: classes.
func ofModel(m *reservoir.Model, name string) (string, error) {
	linear, err := chooseReadout(m, name)
	if err != nil || linear.Interval == nil {
		return "", err
	}
	return linear.Classes[0], nil
}

// datasetFor returns d in the form for a model's readout: a regression can predict a data set with unknown numbers.
func datasetFor(d *archive.Dataset, m *reservoir.Model, name string) (*archive.Dataset, error) {
	target, err := ofModel(m, name)
	if err != nil || target == d.Target {
		return d, err
	}
	if target == "" {
		return nil, fmt.Errorf("offline: data set %q has numbers of %q, and the model predicts classes", d.Name, d.Target)
	}
	return d.WithoutNumbers(target), nil
}
