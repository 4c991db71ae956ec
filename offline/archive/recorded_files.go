package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
)

// RecordingFiles are a recording in one file or, if it is Recorded, in several, in their order, with the source of
// its labels.
type RecordingFiles struct {
	Paths  []string
	Labels *LabelFile // nil: the column label
}

// Recording is a recording whose files agree. Each reading reopens the files.
type Recording struct {
	RecordingInfo RecordingInfo // of the first file

	// Scan sets these fields.
	Classes     []string       // of all labels, sorted; only the target if there is one
	Class       map[string]int // of each label; empty with a target
	Fingerprint string         // see recordingSum

	files  []*recordedFile
	labels *LabelFile
	target string // column of numbers that are learned; "": labels are
	groups string // column of the samples' groups; "": none
}

// Open reads the metadata of all files, and compares the files. Chunks of the recording have Number, the values of
// the column target, unless target is empty, and Group, the values of the column groups.
func (f RecordingFiles) Open(target, groups string) (*Recording, error) {
	files, err := f.open(target, groups)
	if err != nil {
		return nil, err
	}
	return &Recording{RecordingInfo: files[0].info.RecordingInfo, files: files, labels: f.Labels, target: target, groups: groups}, nil
}

func (f RecordingFiles) open(target, groups string) (all []*recordedFile, err error) {
	var ends, silent numbered
	for _, path := range f.Paths {
		r, err := ReadRecording(path)
		if err != nil {
			return nil, err
		}
		if err := cmp.Or(r.in.hasColumn(path, groups, "the groups"), r.in.hasTarget(path, target, r.Channels), r.Close()); err != nil {
			return nil, err
		}
		if len(all) > 0 {
			first := all[0].info
			switch {
			case !r.Recorded || !first.Recorded:
				return nil, datafile.InContent(fmt.Errorf("offline: %s and %s: only the files of one recorded job are read as one recording: give one file", f.Paths[0], path))
			case r.recording != first.recording:
				return nil, datafile.InContent(fmt.Errorf("offline: %s and %s are of two recordings, want the files of one", f.Paths[0], path))
			case !slices.Equal(r.Channels, first.Channels):
				return nil, datafile.InContent(fmt.Errorf("offline: %s has channels %q, and %s has %q: want the same", f.Paths[0], first.Channels, path, r.Channels))
			}
		}
		ends, silent = append(ends, r.ends...), append(silent, r.silent...)
		all = append(all, &recordedFile{path: path, info: r})
	}
	if len(all) == 0 {
		return nil, errors.New("offline: no file of a recording")
	}
	slices.Sort(ends)
	slices.Sort(silent)
	for _, file := range all {
		file.ends, file.silent = ends, silent
	}
	return all, nil
}

// recordedFile is one of several files, with the ends in the metadata of all.
type recordedFile struct {
	path         string
	info         *RecordingReader // closed
	ends, silent numbered
}

// TellsPredictions reports whether the labels are labels of predictions (Told).
func (r *Recording) TellsPredictions() bool { return r.labels.Tells() }

// Each reads the recording from front to back. Chunks of a Recorded recording do not depend on its division into
// files: they equal the chunks of an archive with the same samples. A chunk is valid until visit returns; an error of
// visit ends the reading.
func (r *Recording) Each(ctx context.Context, visit func(*RecordingChunk) error) error {
	labeled := func(c *RecordingChunk) error {
		if err := r.labels.set(c); err != nil {
			return err
		}
		return visit(c)
	}
	if !r.RecordingInfo.Recorded {
		return r.readFile(ctx, r.files[0].path, labeled)
	}
	j := &joined{channels: len(r.RecordingInfo.Channels), take: labeled}
	for _, file := range r.files {
		if err := j.readFile(ctx, file, r); err != nil {
			return err
		}
	}
	return j.flush()
}

// readFile reads a file from front to back, with the requested columns.
func (r *Recording) readFile(ctx context.Context, path string, visit func(*RecordingChunk) error) (err error) {
	in, err := ReadRecording(path)
	if err != nil {
		return err
	}
	in.groups, in.target = r.groups, r.target
	defer func() { err = errors.Join(err, in.Close()) }()
	return in.each(ctx, visit)
}

// joined is chunks of several files put together.
type joined struct {
	channels int
	whole    RecordingChunk
	last     int64 // number of the last sample; 0: none
	take     func(*RecordingChunk) error
}

func (j *joined) readFile(ctx context.Context, file *recordedFile, of *Recording) (err error) {
	r, err := ReadRecording(file.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if r.recording != file.info.recording {
		return fmt.Errorf("offline: %s changed while it was read", file.path)
	}
	r.ends, r.silent, r.groups, r.target = file.ends, file.silent, of.groups, of.target
	return r.each(ctx, func(c *RecordingChunk) error { return j.addFile(file.path, c) })
}

// addFile takes a chunk of a file.
func (j *joined) addFile(path string, c *RecordingChunk) error {
	limit := GroupRows(j.channels)
	for i := range c.Rows() {
		switch {
		case c.Seq[i] <= j.last:
			return datafile.InContent(fmt.Errorf("offline: %s: sample %d comes after sample %d: want the files of one recording in their order, each once", path, c.Seq[i], j.last))
		case j.last > 0 && c.Seq[i] > j.last+1: // a file is missing
			if err := j.flush(); err != nil {
				return err
			}
			j.whole.Restarts = true
		}
		j.last = c.Seq[i]
		j.whole.append(c, i, j.channels)
		if j.whole.Rows() == limit {
			if err := j.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *joined) flush() error {
	if j.whole.Rows() == 0 {
		return nil
	}
	err := j.take(&j.whole)
	j.whole.Reset()
	return err
}

// append adds sample i of another chunk.
func (c *RecordingChunk) append(o *RecordingChunk, i, channels int) {
	c.Stream, c.Seq, c.Time = append(c.Stream, o.Stream[i]), append(c.Seq, o.Seq[i]), append(c.Time, o.Time[i])
	c.Values = append(c.Values, o.Values[i*channels:(i+1)*channels]...)
	c.End, c.Label = append(c.End, o.End[i]), append(c.Label, o.Label[i])
	if o.Number != nil {
		c.Number = append(c.Number, o.Number[i])
	}
	if o.Group != nil {
		c.Group = append(c.Group, o.Group[i])
	}
	to, from := &c.Origin, &o.Origin
	to.Key, to.Input, to.Message = append(to.Key, from.Key[i]), append(to.Input, from.Input[i]), append(to.Message, from.Message[i])
	to.Row, to.Flags = append(to.Row, from.Row[i]), append(to.Flags, from.Flags[i])
	if o.silent != nil && o.silent[i] {
		for len(c.silent) < len(c.End)-1 {
			c.silent = append(c.silent, false)
		}
		c.silent = append(c.silent, true)
	}
}

// SilentAt reports whether silence ended a sequence with a sample.
func (c *RecordingChunk) SilentAt(i int) bool { return i < len(c.silent) && c.silent[i] }
