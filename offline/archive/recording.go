package archive

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// NoTime is in RecordingChunk.Time for a sample without a time.
const NoTime = math.MinInt64

// RecordingInfo describes a recording.
type RecordingInfo struct {
	Name     string
	Channels []string   // at least one; not stream, seq, time, end or label
	Source   Provenance // the origin of the data
	Recorded bool       // samples have an Origin: of a job's input, as eusn-stream record writes it

	// Of WriteRecording: names of the columns for RecordingChunk.Number and Group; empty: none.
	Target, Group string
}

// RecordingChunk is a run of samples of a recording, in the order of the file.
// All slices but Values have one element a sample.
type RecordingChunk struct {
	Stream []string  // stream of each sample; not empty
	Seq    []int64   // the stream's own count, increasing
	Time   []int64   // nanoseconds since 1970 in UTC, NoTime if unknown
	Values []float32 // samples x channels, row-major; NaN if missing
	End    []bool    // whether the stream's sequence ends with this sample
	Label  []string  // class of the sample's sequence; "" if unknown
	Origin Origin    // of a Recorded recording, else empty

	silent   []bool    // Recorded: silence ended the sequence, not a message; nil: nowhere
	Told     []string  // the class of the sequence whose prediction comes with the sample; "" unknown; nil: nowhere
	Number   []float64 // the values of the target's column; nil: none is asked for
	Group    []string  // the values of the column of groups; nil: none is asked for
	Restarts bool      // samples are missing before the first: its streams restart
}

// Rows is the number of samples of c.
func (c *RecordingChunk) Rows() int { return len(c.Stream) }

// Reset empties c and keeps its memory.
func (c *RecordingChunk) Reset() {
	c.Origin.reset()
	*c = RecordingChunk{Stream: c.Stream[:0], Seq: c.Seq[:0], Time: c.Time[:0], Values: c.Values[:0], End: c.End[:0], Label: c.Label[:0], Origin: c.Origin}
}

// Check reports the first error in the lengths and names of c.
func (c *RecordingChunk) Check(channels int, recorded bool) error {
	n := c.Rows()
	from := 0
	if recorded {
		from = n
	}
	if err := c.Origin.checkLength(from); err != nil {
		return err
	}
	if len(c.Seq) != n || len(c.Time) != n || len(c.End) != n || len(c.Label) != n || len(c.Values) != n*channels {
		return fmt.Errorf("a chunk of %d samples has %d seq, %d time, %d end, %d label, %d values: want as many, and %d values a sample",
			n, len(c.Seq), len(c.Time), len(c.End), len(c.Label), len(c.Values), channels)
	}
	for i, s := range c.Stream {
		if s == "" {
			return fmt.Errorf("sample %d: its stream is empty", i)
		}
		if i > 0 && s == c.Stream[i-1] && c.Label[i] == c.Label[i-1] {
			continue
		}
		if err := cmp.Or(names.Check("stream", s), names.Check("label", c.Label[i])); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return nil
}

// groupRows bounds the samples of a row group, so that a reader needs little
// memory and a query can skip groups.
const groupRows = 1 << 16

// GroupRows returns the number of samples in a row group of a recording.
func GroupRows(channels int) int { return max(1, min(groupRows, groupValues/channels)) }

// RecordingWriter writes a recording archive. It belongs to one goroutine.
type RecordingWriter struct {
	// Source goes into the archive's metadata, and may be changed until Close.
	Source Provenance
	Meta   map[string]string // may also be changed until Close

	channels int
	recorded bool
	target   bool // a column has Number
	group    bool // a column has Group
	limit    int  // rows of a row group
	file     *archiveFile
	build    *array.RecordBuilder
	rows     int   // gathered in build
	err      error // the first failure; ends the recording
}

// WriteRecording begins a recording archive at path. Until Close the archive is a temporary file in the same
// directory.
func WriteRecording(path string, info RecordingInfo) (*RecordingWriter, error) {
	if len(info.Channels) == 0 {
		return nil, fmt.Errorf("offline: recording %s: no channels, want at least one", path)
	}
	if err := checkChannels(info.Channels, columnsOf(info.Recorded)); err != nil {
		return nil, fmt.Errorf("offline: recording %s: %w", path, err)
	}
	if err := checkExtra(info); err != nil {
		return nil, fmt.Errorf("offline: recording %s: %w", path, err)
	}
	schema := recordingSchema(info)
	file, err := createArchive(path, schema, writerProps([]string{"stream", "label", "eusn_key", "eusn_flags", info.Group}, true))
	if err != nil {
		return nil, err
	}
	return &RecordingWriter{
		Source:   info.Source,
		channels: len(info.Channels),
		recorded: info.Recorded,
		target:   info.Target != "",
		group:    info.Group != "",
		limit:    GroupRows(len(info.Channels)),
		file:     file,
		build:    array.NewRecordBuilder(memory.DefaultAllocator, schema),
	}, nil
}

// checkExtra checks the names of the columns for numbers and groups.
func checkExtra(i RecordingInfo) error {
	for what, name := range map[string]string{"target": i.Target, "groups": i.Group} {
		if err := names.Check("column", name); err != nil {
			return err
		}
		if name != "" && (slices.Contains(i.Channels, name) || slices.Contains(columnsOf(true), name)) || name != "" && i.Target == i.Group {
			return fmt.Errorf("column %q of the %s: the archive has another column with this name: rename the column", name, what)
		}
	}
	return nil
}

// columnsOf are the columns that are no channels.
func columnsOf(recorded bool) []string {
	if recorded {
		return slices.Concat(recordingColumns, recordedColumns)
	}
	return recordingColumns
}

func recordingSchema(info RecordingInfo) *arrow.Schema {
	fields := []arrow.Field{
		{Name: "stream", Type: arrow.BinaryTypes.String},
		{Name: "seq", Type: arrow.PrimitiveTypes.Int64},
		{Name: "time", Type: arrow.FixedWidthTypes.Timestamp_ns, Nullable: true},
	}
	for _, c := range info.Channels {
		fields = append(fields, arrow.Field{Name: c, Type: arrow.PrimitiveTypes.Float32})
	}
	fields = append(fields,
		arrow.Field{Name: "end", Type: arrow.FixedWidthTypes.Boolean},
		arrow.Field{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true})
	m := archiveMeta{layout: layoutRecording, problem: info.Name, channels: info.Channels}
	if info.Recorded {
		fields = append(fields, recordedFields()...)
	}
	if info.Target != "" {
		fields = append(fields, arrow.Field{Name: info.Target, Type: arrow.PrimitiveTypes.Float64, Nullable: true})
	}
	if info.Group != "" {
		fields = append(fields, arrow.Field{Name: info.Group, Type: arrow.BinaryTypes.String, Nullable: true})
	}
	meta := m.arrow()
	return arrow.NewSchema(fields, &meta)
}

// Write adds the samples of c, which stays the caller's. After an error the
// recording cannot be finished, only aborted.
func (w *RecordingWriter) Write(c *RecordingChunk) error {
	if w.err == nil {
		w.err = c.Check(w.channels, w.recorded)
	}
	if n := c.Rows(); w.err == nil && (w.target && len(c.Number) != n || w.group && len(c.Group) != n) {
		w.err = fmt.Errorf("a chunk of %d samples has %d numbers and %d groups", n, len(c.Number), len(c.Group))
	}
	for i := 0; i < c.Rows() && w.err == nil; i++ {
		w.append(c, i)
		if w.rows == w.limit {
			w.flush()
		}
	}
	return w.fail()
}

func (w *RecordingWriter) append(c *RecordingChunk, i int) {
	b := w.build
	b.Field(0).(*array.StringBuilder).Append(c.Stream[i])
	b.Field(1).(*array.Int64Builder).Append(c.Seq[i])
	if c.Time[i] == NoTime {
		b.Field(2).AppendNull()
	} else {
		b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(c.Time[i]))
	}
	for k, v := range c.Values[i*w.channels : (i+1)*w.channels] {
		b.Field(3 + k).(*array.Float32Builder).Append(v)
	}
	b.Field(3 + w.channels).(*array.BooleanBuilder).Append(c.End[i])
	if label := b.Field(4 + w.channels).(*array.StringBuilder); c.Label[i] == "" {
		label.AppendNull()
	} else {
		label.Append(c.Label[i])
	}
	at := 5 + w.channels
	if w.recorded {
		c.Origin.append(b, at, i)
		at += len(recordedColumns)
	}
	if w.target {
		if number := b.Field(at).(*array.Float64Builder); c.Number[i] != c.Number[i] {
			number.AppendNull()
		} else {
			number.Append(c.Number[i])
		}
		at++
	}
	if w.group {
		if group := b.Field(at).(*array.StringBuilder); c.Group[i] == "" {
			group.AppendNull()
		} else {
			group.Append(c.Group[i])
		}
	}
	w.rows++
}

func (w *RecordingWriter) flush() {
	if w.rows > 0 && w.err == nil {
		w.rows, w.err = 0, writeGroup(w.file, w.build)
	}
}

func (w *RecordingWriter) fail() error {
	if w.err != nil {
		return fmt.Errorf("offline: recording %s: %w", w.file.path, w.err)
	}
	return nil
}

// Size is the number of bytes in the file so far, without the growing row group.
func (w *RecordingWriter) Size() int64 { return w.file.written + int64(w.file.buf.Buffered()) }

// Close ends the recording and gives the file its name, durably: after a nil error the archive survives a crash of
// the machine. After a failed Write, Close aborts and returns the failure. A closed writer must not be reused.
func (w *RecordingWriter) Close() error {
	w.flush()
	meta := map[string]string{keyProvenance: toJSON(w.Source)}
	maps.Copy(meta, w.Meta)
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if w.err == nil {
			w.err = w.file.parquet.AppendKeyValueMetadata(key, meta[key])
		}
	}
	if w.err != nil {
		w.Abort()
		return w.fail()
	}
	w.build.Release()
	return w.file.commit()
}

// Abort discards the recording and removes the temporary file.
func (w *RecordingWriter) Abort() {
	w.build.Release()
	w.file.abort()
}
