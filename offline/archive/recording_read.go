package archive

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// RecordingReader reads a recording archive from front to back. It belongs to one goroutine.
type RecordingReader struct {
	RecordingInfo
	Rows int64 // samples in all, as the archive claims

	recording    string   // identity of a Recorded recording
	ends, silent numbered // samples that end sequences, in addition to the column end
	target       string   // column of numbers to learn; "": none
	groups       string   // column of the samples' groups; "": none

	path  string
	in    *parquetFile
	group *readGroup       // the group being read; nil: the next group
	next  int              // row group
	seqs  map[string]int64 // of the last sample of each stream
	times timeColumn
}

// ReadRecording opens a recording archive and checks its metadata and columns. The caller closes the reader.
func ReadRecording(path string) (r *RecordingReader, err error) {
	defer guard(path, &err)
	in, err := openParquet(path)
	if err != nil {
		return nil, err
	}
	if r, err = newRecordingReader(path, in); err != nil {
		in.file.Close()
	}
	return r, err
}

// IsRecording reports whether the metadata of the file at path name a recording
// archive, which may be damaged.
func IsRecording(path string) bool {
	in, err := openQuietly(path)
	if err != nil {
		return false
	}
	defer in.file.Close()
	layout := in.rd.MetaData().KeyValueMetadata().FindValue(keyArchive)
	return layout != nil && *layout == layoutRecording
}

func newRecordingReader(path string, in *parquetFile) (*RecordingReader, error) {
	r := &RecordingReader{path: path, in: in, seqs: make(map[string]int64)}
	err := r.readMeta()
	if err == nil {
		r.times, err = newTimeColumn(in, r.Meta(KeyTimeUnit), r.Recorded)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *RecordingReader) readMeta() error {
	meta, err := readMeta(layoutRecording, r.in.rd.MetaData().KeyValueMetadata().FindValue)
	if err != nil {
		return err
	}
	r.RecordingInfo = RecordingInfo{Name: meta.problem, Channels: meta.channels, Source: meta.source}
	r.recording = r.Meta(keyRecording)
	r.Recorded = r.recording != ""
	r.Rows = r.in.rd.NumRows()
	if len(r.Channels) == 0 {
		return fmt.Errorf("metadata key %s names no channel", keyChannels)
	}
	columns := columnsOf(r.Recorded)
	if err := checkChannels(r.Channels, columns); err != nil {
		return err
	}
	if err := r.readEnds(); err != nil {
		return err
	}
	for _, name := range slices.Concat(columns, r.Channels) {
		if _, _, err := r.in.leaf(name); err != nil {
			return err
		}
	}
	return nil
}

// Meta is a value of the file's metadata, or empty.
func (r *RecordingReader) Meta(key string) string {
	if v := r.in.rd.MetaData().KeyValueMetadata().FindValue(key); v != nil {
		return *v
	}
	return ""
}

// readEnds reads the ends of sequences outside the column end.
func (r *RecordingReader) readEnds() (err error) {
	if !r.Recorded {
		return nil
	}
	if r.ends, err = parseNumbers(keyEnds, r.Meta(keyEnds)); err == nil {
		r.silent, err = parseNumbers(keySilent, r.Meta(keySilent))
	}
	return err
}

// readGroup is a row group that is read a batch at a time. A column may be read twice, also as the target or the
// groups, so each use has its own position.
type readGroup struct{ columns, target, groups *rowGroup }

func (r *RecordingReader) openGroup(i int) (g *readGroup, err error) {
	g = new(readGroup)
	r.in.pages = 0
	for _, to := range []**rowGroup{&g.columns, &g.target, &g.groups} {
		if *to, err = r.in.group(i); err != nil {
			return nil, err
		}
		(*to).restart()
	}
	return g, nil
}

// batch moves to the next rows; false after the last.
func (g *readGroup) batch(limit int) bool {
	g.target.batch(limit)
	g.groups.batch(limit)
	return g.columns.batch(limit)
}

// Next replaces the contents of c by the next samples, at most GroupRows of one row group, or returns io.EOF after
// the last.
func (r *RecordingReader) Next(c *RecordingChunk) error {
	c.Reset()
	more, err := r.nextRows()
	if err == nil && !more {
		return io.EOF
	}
	if err == nil {
		err = r.readRows(c)
	}
	if err != nil {
		c.Reset()
	}
	return err
}

// nextRows goes to the next rows; false after the last.
func (r *RecordingReader) nextRows() (more bool, err error) {
	defer guard(r.path, &err)
	for r.group == nil || !r.group.batch(GroupRows(len(r.Channels))) {
		if r.group = nil; r.next == r.in.rd.NumRowGroups() {
			return false, nil
		}
		if r.group, err = r.openGroup(r.next); err != nil {
			return false, fmt.Errorf("row group %d: %w", r.next, err)
		}
		r.next++
	}
	return true, nil
}

// readRows reads the rows.
func (r *RecordingReader) readRows(c *RecordingChunk) (err error) {
	defer guard(r.path, &err)
	r.in.budget = datafile.MaxValues // for each chunk, as c holds only one
	if err = r.readChunk(r.group, c); err == nil {
		err = c.Check(len(r.Channels), r.Recorded)
	}
	if err == nil {
		err = r.checkOrder(c)
	}
	if err != nil {
		return fmt.Errorf("row group %d: %w", r.next-1, err)
	}
	return nil
}

// checkOrder refuses samples of a stream that are not in the order of their numbers.
func (r *RecordingReader) checkOrder(c *RecordingChunk) error {
	for i, stream := range c.Stream {
		last, seen := r.seqs[stream]
		if seen && c.Seq[i] <= last {
			return fmt.Errorf("stream %q: seq %d after %d, want it to increase: sort the samples of each stream, and leave out repeated ones", names.Cut(stream, 40), c.Seq[i], last)
		}
		r.seqs[stream] = c.Seq[i]
	}
	return nil
}

func (r *RecordingReader) readChunk(of *readGroup, c *RecordingChunk) (err error) {
	g := of.columns
	if c.Stream, err = flat(g, "stream", interner(), nil); err != nil {
		return err
	}
	if c.Seq, err = integers(g, "seq"); err != nil {
		return err
	}
	if c.Time, err = r.times.readTimes(g); err != nil {
		return err
	}
	if c.End, err = flat(g, "end", same[bool], nil); err != nil {
		return err
	}
	if c.Label, err = flat(g, "label", interner(), func() string { return "" }); err != nil {
		return err
	}
	if r.target != "" {
		if c.Number, err = numberColumn(of.target, r.target); err != nil {
			return err
		}
	}
	if r.groups != "" {
		if c.Group, err = groupColumn(of.groups, r.groups); err != nil {
			return err
		}
	}
	if r.Recorded {
		if err := c.Origin.readGroup(g); err != nil {
			return err
		}
		r.setEnds(c)
	}
	return r.values(g, c)
}

// setEnds sets the ends outside the column end.
func (r *RecordingReader) setEnds(c *RecordingChunk) {
	for i, number := range c.Seq {
		if r.silent.has(number) {
			if c.silent == nil {
				c.silent = make([]bool, len(c.Seq))
			}
			c.End[i], c.silent[i] = true, true
		} else if r.ends.has(number) {
			c.End[i] = true
		}
	}
}

func (r *RecordingReader) values(g *rowGroup, c *RecordingChunk) error {
	channels := len(r.Channels)
	for k, name := range r.Channels {
		column, err := floats(g, name)
		if err != nil {
			return err
		}
		if k == 0 {
			if err := g.room(g.rows, channels-1); err != nil {
				return err
			}
			c.Values = make([]float32, g.rows*channels)
		}
		for t, v := range column {
			c.Values[t*channels+k] = v
		}
	}
	return nil
}

// each hands on the rest of a recording.
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

// Close closes the file.
func (r *RecordingReader) Close() error {
	if err := r.in.file.Close(); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	return nil
}
