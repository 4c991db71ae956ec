package offline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline/groups"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// recordingSource is the streams of a recording, read row group by row group. Each
// reading opens the files again.
type recordingSource struct {
	from     RecordingFiles
	files    []*recordedFile
	channels int
	class    map[string]int // of each label
}

func (t *recordingSource) word() string { return "stream" }

func (t *recordingSource) policy(p reservoir.Policy) reservoir.Policy { return p }

// streams numbers the streams of a recording. One that silence has ended begins
// anew with its next sample, as the stage's does, and so do all where samples are
// missing between two files.
type streams struct {
	number map[string]int
	ids    []string
	open   []bool
	rows   map[int][]int // of each stream in the chunk in hand
	silent map[int]bool  // streams that silence ends in it
}

// nameOf tells streams apart: of a job, those of two keys that have the same name.
func nameOf(c *RecordingChunk, r int) string {
	if c.Origin.Key == nil || c.Origin.Key[r] == c.Stream[r] {
		return c.Stream[r]
	}
	return c.Origin.Key[r] + "\x00" + c.Stream[r]
}

// sort gives the rows of a chunk to their streams, which are listed by their first
// row.
func (s *streams) sort(c *RecordingChunk) (order []int) {
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
		if c.silentAt(r) {
			s.silent[n] = true
			delete(s.number, name)
		}
	}
	return order
}

// end ends the streams that are open, in their order.
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
	err := t.from.each(ctx, t.files, func(c *RecordingChunk) error {
		if c.restarts {
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

// classOf is that of a label, -1 where there is none.
func (t *recordingSource) classOf(label string) int {
	if class, known := t.class[label]; known {
		return class
	}
	return -1
}

// gather makes a chunk of one stream's rows.
func (t *recordingSource) gather(c *RecordingChunk, rows []int) *chunk {
	p := &chunk{counts: t.from.Labels.Tells() || c.number != nil}
	for _, r := range rows {
		p.values = append(p.values, c.Values[r*t.channels:(r+1)*t.channels]...)
		p.times, p.ends = append(p.times, c.Time[r]), append(p.ends, c.End[r])
		p.labels = append(p.labels, t.classOf(c.Label[r]))
		if c.Origin.Key != nil {
			p.flags = append(p.flags, outcome.Flag(c.Origin.Flags[r]))
		}
		if c.number != nil {
			p.numbers = append(p.numbers, c.number[r])
		}
		if c.group != nil {
			p.groups = append(p.groups, c.group[r])
		}
		if c.told != nil {
			p.told = append(p.told, t.classOf(c.told[r]))
		}
	}
	p.silent = len(rows) > 0 && c.silentAt(rows[len(rows)-1])
	return p
}

// eachChunk reads a recording from front to back, with the columns that are asked for.
func eachChunk(ctx context.Context, path string, of RecordingFiles, take func(*RecordingChunk) error) (err error) {
	r, err := ReadRecording(path)
	if err != nil {
		return err
	}
	r.groups, r.target = of.groups, of.target
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.each(ctx, take)
}

// each hands on what is left of a recording.
func (r *RecordingReader) each(ctx context.Context, take func(*RecordingChunk) error) error {
	var c RecordingChunk
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		switch err := r.Next(&c); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		if err := take(&c); err != nil {
			return err
		}
	}
}

// openLabelled reads a recording once: for its classes, and for what
// identifies it.
func openLabelled(ctx context.Context, from RecordingFiles, rule *groups.Rule) (src labelledData, err error) {
	if rule != nil {
		from.groups, _ = rule.Column()
	}
	src.sites = groups.NewTable(rule)
	files, err := from.open()
	if err != nil {
		return src, err
	}
	src.name, src.channels = files[0].info.Name, files[0].info.Channels
	src.target = from.target
	labels := map[string]int{}
	var numbers targetPrint
	sum := newRecordingSum(src.channels)
	err = from.each(ctx, files, func(c *RecordingChunk) error {
		for _, v := range c.number {
			numbers.add(v)
		}
		for _, label := range slices.Concat(c.Label, c.told) {
			if label != "" && from.target == "" {
				labels[label] = -1
			}
		}
		sum.add(c)
		return nil
	})
	src.classes, labels = joinNumbers(slices.Sorted(maps.Keys(labels)), nil)
	src.what = fmt.Sprintf("recording %q", src.name)
	src.fingerprint = func() string { return hex.EncodeToString(sum.h.Sum(nil)) }
	if from.target != "" {
		src.classes = []string{from.target}
		src.fingerprint = func() string { return numbers.sum(hex.EncodeToString(sum.h.Sum(nil)), from.target) }
	}
	src.sampleSource = &recordingSource{from, files, len(src.channels), labels}
	if err == nil {
		err = from.Labels.checkFit(src.what)
	}
	return src, err
}

// recordingSum identifies a recording's content: the SHA-256 of
// "eusn-recording-1", the channel names (count, then length and bytes of each),
// then per sample in the order of the file length and bytes of stream and
// label, the time (int64), one byte for the end, and the float32 bits of the
// values; and the byte t, length and bytes of the label of the prediction that comes
// with the sample, where a LabelFile says one. All other numbers are 32-bit; all are
// little-endian.
type recordingSum struct {
	h        hash.Hash
	channels int
	buf      []byte
}

func newRecordingSum(channels []string) *recordingSum {
	s := &recordingSum{h: sha256.New(), channels: len(channels)}
	s.h.Write([]byte("eusn-recording-1"))
	hashNames(s.h, channels)
	return s
}

func (s *recordingSum) add(c *RecordingChunk) {
	le := binary.LittleEndian
	for i := range c.Rows() {
		b := s.buf[:0]
		for _, text := range []string{c.Stream[i], c.Label[i]} {
			b = append(le.AppendUint32(b, uint32(len(text))), text...)
		}
		b = le.AppendUint64(b, uint64(c.Time[i]))
		if c.End[i] {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
		for _, v := range c.Values[i*s.channels : (i+1)*s.channels] {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
		if c.told != nil && c.told[i] != "" { // more than an archive can say
			b = append(le.AppendUint32(append(b, 't'), uint32(len(c.told[i]))), c.told[i]...)
		}
		s.h.Write(b)
		s.buf = b
	}
}

// RetrainFiles is Retrain on the whole recording in one or more files. Its streams
// are cut as the live stage would cut them. A sequence has the label that all
// its samples have; one whose samples have several, or none, is left out and
// counted. Leave-one-out leaves out together all that comes of one labelled part of a
// stream with one label, or of one sequence under the policies marked and gap,
// which separate theirs. The input transform's constants are those of the
// labelled samples; of all samples where a LabelFile labels predictions.
//
// The files are read three times, a row group at a time. Beyond that, memory
// holds the samples of open sequences, at most DefaultMaxValues values.
func RetrainFiles(ctx context.Context, from RecordingFiles, opt RetrainOptions, progress Progress) (*reservoir.Model, RetrainReport, error) {
	rule, err := withParts(opt.Groups, opt.Parts)
	if err != nil {
		return nil, RetrainReport{}, err
	}
	from.target = opt.Target
	src, err := openLabelled(ctx, from, rule)
	if err == nil {
		src.sampleSource, err = inPart(src.sampleSource, len(src.channels), opt.Parts, Train)
	}
	if err != nil {
		return nil, RetrainReport{}, err
	}
	if len(src.classes) == 0 && !opt.Novelty.all() {
		return nil, RetrainReport{}, InContent(fmt.Errorf("offline: %s has no labels: a CSV recording has them in a column label, on every sample whose class is known; --labels takes them from a file", src.what))
	}
	return retrain(ctx, src, opt.withDefaults(len(src.channels)), progress)
}

// EvaluateFiles is Evaluate on the whole recording in one or more files: every
// prediction that the stage would make of its streams. If from is Recorded, predictions
// also have the flags of lost, late and unusable messages.
func EvaluateFiles(ctx context.Context, m *reservoir.Model, from RecordingFiles, opt EvaluateOptions, progress Progress) (*Evaluation, error) {
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
	if opt.Split = cmp.Or(opt.Split, Test); opt.Parts == nil {
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

// openEvaluated opens a recording for a model, whose target it need not have.
func openEvaluated(ctx context.Context, m *reservoir.Model, from RecordingFiles, rule *groups.Rule, opt EvaluateOptions) (labelledData, error) {
	target, err := ofModel(m, opt.Readout)
	if err != nil {
		return labelledData{}, err
	}
	if target != "" && from.has(target) {
		from.target = target
	}
	src, err := openLabelled(ctx, from, rule)
	if err == nil && target != "" { // labels say nothing of numbers
		src.target, src.classes = target, []string{target}
		clear(src.sampleSource.(*recordingSource).class)
	}
	return src, err
}
