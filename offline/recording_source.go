package offline

import (
	"cmp"
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// recordingSource is the streams of a recording, read row group by row group. Each reading reopens the files.
type recordingSource struct {
	from     *archive.Recording
	channels int
	class    map[string]int // of each label
}

func (t *recordingSource) word() string { return "stream" }

func (t *recordingSource) policy(p reservoir.Policy) reservoir.Policy { return p }

// streams numbers the streams of a recording. As in the stage, a stream ended by silence restarts with its next
// sample; all streams restart if samples are missing between two files.
type streams struct {
	number map[string]int
	ids    []string
	open   []bool
	rows   map[int][]int // of each stream in the chunk in hand
	silent map[int]bool  // streams that silence ends in it
}

// nameOf distinguishes streams: in a job's recording, two keys can have the same stream name.
func nameOf(c *archive.RecordingChunk, r int) string {
	if c.Origin.Key == nil || c.Origin.Key[r] == c.Stream[r] {
		return c.Stream[r]
	}
	return c.Origin.Key[r] + "\x00" + c.Stream[r]
}

// sort gives the rows of a chunk to their streams, which are listed by their first
// row.
func (s *streams) sort(c *archive.RecordingChunk) (order []int) {
	clear(s.rows)
	clear(s.silent)
	for r := range c.Stream {
		name := nameOf(c, r)
		n, known := s.number[name]
		if !known {
			n = len(s.ids)
			s.number[name], s.ids, s.open = n, append(s.ids, c.Stream[r]), append(s.open, true)
		}
		if len(s.rows[n]) == 0 {
			order = append(order, n)
		}
		s.rows[n] = append(s.rows[n], r)
		if c.SilentAt(r) {
			s.silent[n] = true
			delete(s.number, name)
		}
	}
	return order
}

// end ends the open streams, in their order.
func (s *streams) end(yield func(*chunk) error) error {
	for n, id := range s.ids {
		if !s.open[n] {
			continue
		}
		s.open[n] = false
		if err := yield(&chunk{stream: n, id: id, last: true}); err != nil {
			return err
		}
	}
	clear(s.number)
	return nil
}

func (t *recordingSource) read(ctx context.Context, yield func(*chunk) error) error {
	s := &streams{number: map[string]int{}, rows: map[int][]int{}, silent: map[int]bool{}}
	err := t.from.Each(ctx, func(c *archive.RecordingChunk) error {
		if c.Restarts {
			if err := s.end(yield); err != nil {
				return err
			}
		}
		for _, n := range s.sort(c) {
			p := t.gather(c, s.rows[n])
			p.stream, p.id, p.last = n, s.ids[n], s.silent[n]
			s.open[n] = !p.last
			if err := yield(p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.end(yield)
}

// classOf returns the class of a label, or -1.
func (t *recordingSource) classOf(label string) int {
	if class, known := t.class[label]; known {
		return class
	}
	return -1
}

// gather makes a chunk from the rows of one stream.
func (t *recordingSource) gather(c *archive.RecordingChunk, rows []int) *chunk {
	p := &chunk{counts: t.from.TellsPredictions() || c.Number != nil}
	for _, r := range rows {
		p.values = append(p.values, c.Values[r*t.channels:(r+1)*t.channels]...)
		p.times, p.ends = append(p.times, c.Time[r]), append(p.ends, c.End[r])
		p.labels = append(p.labels, t.classOf(c.Label[r]))
		if c.Origin.Key != nil {
			p.flags = append(p.flags, outcome.Flag(c.Origin.Flags[r]))
		}
		if c.Number != nil {
			p.numbers = append(p.numbers, c.Number[r])
		}
		if c.Group != nil {
			p.groups = append(p.groups, c.Group[r])
		}
		if c.Told != nil {
			p.told = append(p.told, t.classOf(c.Told[r]))
		}
	}
	p.silent = len(rows) > 0 && c.SilentAt(rows[len(rows)-1])
	return p
}

// openLabelled reads a recording once: for its classes, and for its identity. Numbers of the column target are
// learnt, unless target is empty.
func openLabelled(ctx context.Context, from archive.RecordingFiles, target string, rule *groups.Rule) (src labelledData, err error) {
	column := ""
	if rule != nil {
		column, _ = rule.Column()
	}
	rec, err := from.Open(target, column)
	if err != nil {
		return src, err
	}
	if err := rec.Scan(ctx); err != nil {
		return src, err
	}
	src.sites = groups.NewTable(rule)
	src.name, src.channels = rec.RecordingInfo.Name, rec.RecordingInfo.Channels
	src.what = fmt.Sprintf("recording %q", src.name)
	src.target, src.classes = target, rec.Classes
	src.fingerprint = func() string { return rec.Fingerprint }
	src.sampleSource = &recordingSource{rec, len(src.channels), rec.Class}
	return src, nil
}

// RetrainFiles is Retrain on the whole recording in one or more files. Its streams are cut as in the live stage. A
// sequence has a label if all its samples have this label; a sequence with several labels, or none, is left out and
// counted. Leave-one-out leaves out together all sequences of one labelled part of a stream with one label, or of one
// sequence under the policies marked and gap, which separate sequences. The input transform's constants come from the
// labelled samples; from all samples if a LabelFile labels predictions.
//
// The files are read three times, a row group at a time. In addition, memory holds the samples of open sequences, at
// most datafile.MaxValues values.
func RetrainFiles(ctx context.Context, from archive.RecordingFiles, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	rule, err := withParts(opt.Groups, opt.Parts)
	if err != nil {
		return nil, RetrainReport{}, err
	}
	src, err := openLabelled(ctx, from, opt.Target, rule)
	if err == nil {
		src.sampleSource, err = inPart(src.sampleSource, len(src.channels), opt.Parts, archive.Train)
	}
	if err != nil {
		return nil, RetrainReport{}, err
	}
	if len(src.classes) == 0 && !opt.Novelty.all() {
		return nil, RetrainReport{}, datafile.InContent(fmt.Errorf("offline: %s has no labels: a CSV recording has them in a column label, on every sample whose class is known; --labels takes them from a file", src.what))
	}
	return retrain(ctx, src, opt.withDefaults(len(src.channels)), progress)
}

// EvaluateFiles is Evaluate on the whole recording in one or more files: every prediction of a stage on these
// streams. If from is Recorded, predictions also have the flags of lost, late and unusable messages.
func EvaluateFiles(ctx context.Context, m *reservoir.Model, from archive.RecordingFiles, opt EvaluateOptions, progress archive.Progress) (*Evaluation, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	rule, err := withParts(opt.Groups, opt.Parts)
	if err != nil {
		return nil, err
	}
	src, err := openEvaluated(ctx, m, from, rule, opt)
	if err != nil {
		return nil, err
	}
	if opt.Split = cmp.Or(opt.Split, archive.Test); opt.Parts == nil {
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
	if src.sampleSource, err = inPart(src.sampleSource, len(src.channels), opt.Parts, opt.Split); err != nil {
		return nil, err
	}
	if err := ev.run(ctx, m, src, opt, progress); err != nil {
		return nil, err
	}
	return ev, nil
}

// openEvaluated opens a recording for a model, with or without the model's target.
func openEvaluated(ctx context.Context, m *reservoir.Model, from archive.RecordingFiles, rule *groups.Rule, opt EvaluateOptions) (labelledData, error) {
	target, err := ofModel(m, opt.Readout)
	if err != nil {
		return labelledData{}, err
	}
	column := ""
	if target != "" && len(from.Paths) > 0 && archive.HasColumn(from.Paths[0], target) {
		column = target
	}
	src, err := openLabelled(ctx, from, column, rule)
	if err == nil && target != "" { // labels do not apply to numbers
		src.target, src.classes = target, []string{target}
		clear(src.sampleSource.(*recordingSource).class)
	}
	return src, err
}
