package offline

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/parquet/schema"
)

// RecordingReader reads a recording archive from front to back. It belongs to
// one goroutine.
type RecordingReader struct {
	RecordingInfo
	Rows int64 // samples in all, as the archive claims

	recording    string   // which; of one that is Recorded
	ends, silent numbered // samples with which sequences end, besides the column end
	target       string   // column of numbers to learn; "": none
	groups       string   // column whose values are the groups of samples; "": none

	path  string
	in    *parquetFile
	next  int   // row group
	ticks int64 // nanoseconds in a unit of the time column
}

// ReadRecording opens a recording archive and checks its metadata and columns.
// The caller closes it.
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

func newRecordingReader(path string, in *parquetFile) (*RecordingReader, error) {
	r := &RecordingReader{path: path, in: in}
	if err := r.readMeta(); err != nil {
		return nil, err
	}
	if err := r.timeUnit(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *RecordingReader) readMeta() error {
	meta, err := readMeta(layoutRecording, r.in.rd.MetaData().KeyValueMetadata().FindValue)
	if err != nil {
		return err
	}
	r.RecordingInfo = RecordingInfo{Name: meta.problem, Channels: meta.channels, Source: meta.source, Recorded: meta.version == recordedVersion}
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
		if _, ok := r.in.columns[name]; !ok {
			return fmt.Errorf("column %q is missing", name)
		}
	}
	return nil
}

// Meta is a value of the file's metadata; empty where it has none.
func (r *RecordingReader) Meta(key string) string {
	if v := r.in.rd.MetaData().KeyValueMetadata().FindValue(key); v != nil {
		return *v
	}
	return ""
}

// readEnds reads which sequences end besides those of the column end.
func (r *RecordingReader) readEnds() (err error) {
	if !r.Recorded {
		return nil
	}
	if r.recording = r.Meta(keyRecording); r.recording == "" {
		return fmt.Errorf("metadata key %s is missing", keyRecording)
	}
	if r.ends, err = parseNumbers(keyEnds, r.Meta(keyEnds)); err == nil {
		r.silent, err = parseNumbers(keySilent, r.Meta(keySilent))
	}
	return err
}

func (r *RecordingReader) timeUnit() error {
	time, ok := r.in.rd.MetaData().Schema.Column(r.in.columns["time"]).LogicalType().(*schema.TimestampLogicalType)
	if !ok {
		return fmt.Errorf("column %q: want a timestamp", "time")
	}
	switch time.TimeUnit() {
	case schema.TimeUnitNanos:
		r.ticks = 1
	case schema.TimeUnitMicros: // other tools round so
		r.ticks = 1e3
	case schema.TimeUnitMillis:
		r.ticks = 1e6
	default:
		return fmt.Errorf("column %q: unknown unit of time", "time")
	}
	return nil
}

// Next replaces what c holds by the next row group, at most 65536 samples in
// archives of our own, or returns io.EOF after the last.
func (r *RecordingReader) Next(c *RecordingChunk) (err error) {
	c.Reset()
	if r.next == r.in.rd.NumRowGroups() {
		return io.EOF
	}
	defer guard(r.path, &err)
	r.in.budget = DefaultMaxValues // for each group, as c holds only one
	g, err := r.in.group(r.next)
	if err == nil {
		err = r.read(g, c)
	}
	if err == nil {
		err = c.check(len(r.Channels), r.Recorded)
	}
	if err != nil {
		c.Reset()
		return fmt.Errorf("row group %d: %w", r.next, err)
	}
	r.next++
	return nil
}

func (r *RecordingReader) read(g *rowGroup, c *RecordingChunk) (err error) {
	if c.Stream, err = flat(g, "stream", interner(), nil); err != nil {
		return err
	}
	if c.Seq, err = integers(g, "seq"); err != nil {
		return err
	}
	if c.Time, err = flat(g, "time", same[int64], func() int64 { return NoTime }); err != nil {
		return err
	}
	for i, t := range c.Time {
		if t == NoTime {
			continue
		}
		if t > math.MaxInt64/r.ticks || t < math.MinInt64/r.ticks {
			return fmt.Errorf("row %d: time %d does not fit into 64-bit nanoseconds", i, t)
		}
		c.Time[i] = t * r.ticks
	}
	if c.End, err = flat(g, "end", same[bool], nil); err != nil {
		return err
	}
	if c.Label, err = flat(g, "label", interner(), func() string { return "" }); err != nil {
		return err
	}
	if r.target != "" {
		if c.number, err = numberColumn(g, r.target); err != nil {
			return err
		}
	}
	if r.groups != "" {
		if c.group, err = groupColumn(g, r.groups); err != nil {
			return err
		}
	}
	if r.Recorded {
		if err := c.Origin.read(g); err != nil {
			return err
		}
		r.setEnds(c)
	}
	return r.values(g, c)
}

// setEnds sets the ends that the column end does not have.
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

// Close ends the reading.
func (r *RecordingReader) Close() error {
	if err := r.in.file.Close(); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	return nil
}
