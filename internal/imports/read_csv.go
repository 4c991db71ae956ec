package imports

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// csvReader reads a CSV recording: a header line, then a sample per line, commas between
// fields, double quotes around fields if necessary. Columns, of which only stream is
// required:
//
//	stream  stream of the sample
//	seq     whole numbers increasing within a stream; without it samples are counted from 1
//	time    RFC 3339, or a number since 1970, in nanoseconds unless a unit is given; may be empty
//	end     true, false, 1, 0 or empty (false): the sequence ends here
//	label   class; may be empty
//
// Every other column is a channel, in the file's order.
type csvReader struct {
	src      *source
	channels []string
	columns  int
	indexes  struct{ stream, seq, time, end, label int } // column numbers, -1 for none
	values   []int                                       // column numbers of the channels
	last     map[string]int64                            // seq of each stream's latest sample
	fields   [][]byte
	ticks    int64 // nanoseconds in the unit of numeric times
	checked  bool  // the unit has been checked
}

// setUnit sets the unit of numeric times; empty: nanoseconds, unless the first time seems
// to have another unit.
func (r *csvReader) setUnit(unit string) error {
	if unit == "" {
		return nil
	}
	if r.ticks, r.checked = timeunit.Ticks(unit), true; r.ticks == 0 {
		return fmt.Errorf("offline: unit of time %q, want one of %q", unit, timeunit.Names)
	}
	return nil
}

func newCSVReader(src *source) (*csvReader, error) {
	r := &csvReader{src: src, last: make(map[string]int64), ticks: 1}
	line, err := src.readLine()
	if err == io.EOF {
		return nil, src.errorf("the file is empty, want a header line")
	}
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(line) {
		return nil, src.errorf("the header line is not valid UTF-8")
	}
	if r.fields, err = splitCSV(line, nil); err != nil {
		return nil, src.errorf("%w", err)
	}
	header := make([]string, len(r.fields))
	for i, f := range r.fields {
		header[i] = strings.TrimSpace(string(f))
	}
	r.columns = len(header)
	if err := r.locateColumns(header); err != nil {
		return nil, src.errorf("%w; the header has: %q", err, clip([]byte(strings.Join(header, ", "))))
	}
	return r, nil
}

// locateColumns finds the columns in the header.
func (r *csvReader) locateColumns(header []string) error {
	if err := names.CheckAll("column", header); err != nil {
		return err
	}
	r.indexes.stream, r.indexes.seq, r.indexes.time, r.indexes.end, r.indexes.label = -1, -1, -1, -1, -1
	for i, name := range header {
		switch name {
		case "stream":
			r.indexes.stream = i
		case "seq":
			r.indexes.seq = i
		case "time":
			r.indexes.time = i
		case "end":
			r.indexes.end = i
		case "label":
			r.indexes.label = i
		default:
			r.channels, r.values = append(r.channels, name), append(r.values, i)
		}
	}
	if r.indexes.stream < 0 {
		return fmt.Errorf("no column %q", "stream")
	}
	if len(r.channels) == 0 {
		return fmt.Errorf("no channel column")
	}
	return nil
}

// readSamples appends up to limit samples to c; it returns io.EOF at the end.
func (r *csvReader) readSamples(c *archive.RecordingChunk, limit int) error {
	for n := 0; n < limit; {
		line, err := r.src.readLine()
		if err == io.EOF && n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := r.parseSample(line, c); err != nil {
			return r.src.errorf("%w", err)
		}
		n++
	}
	return nil
}

// parseSample appends a line to c.
func (r *csvReader) parseSample(line []byte, c *archive.RecordingChunk) (err error) {
	if r.fields, err = splitCSV(line, r.fields[:0]); err != nil {
		return err
	}
	if len(r.fields) != r.columns {
		return fmt.Errorf("the line has %d fields, the header %d", len(r.fields), r.columns)
	}
	stream := string(bytes.TrimSpace(r.fields[r.indexes.stream]))
	if stream == "" {
		return fmt.Errorf("the stream is empty")
	}
	if err := names.Check("stream", stream); err != nil {
		return err
	}
	seq, err := r.parseSeq(stream)
	if err != nil {
		return err
	}
	at, err := r.parseTime(r.field(r.indexes.time))
	if err != nil {
		return err
	}
	end, err := parseBool(r.field(r.indexes.end))
	if err != nil {
		return err
	}
	label := string(r.field(r.indexes.label))
	if err := names.Check("label", label); err != nil {
		return err
	}
	for k, i := range r.values {
		v, ok := nan32, true
		if field := r.field(i); len(field) > 0 {
			v, ok = parseValue(field)
		}
		if !ok {
			return fmt.Errorf("column %q: want a finite number, or nothing, ? or NaN for a missing value, got %q", r.channels[k], clip(r.fields[i]))
		}
		c.Values = append(c.Values, v)
	}
	r.last[stream] = seq
	c.Stream, c.Seq, c.Time = append(c.Stream, stream), append(c.Seq, seq), append(c.Time, at)
	c.End, c.Label = append(c.End, end), append(c.Label, label)
	return nil
}

// field returns a field of the line, without surrounding blanks; nil if the file has no
// such column.
func (r *csvReader) field(column int) []byte {
	if column < 0 {
		return nil
	}
	return bytes.TrimSpace(r.fields[column])
}

func (r *csvReader) parseSeq(stream string) (int64, error) {
	last, seen := r.last[stream]
	if r.indexes.seq < 0 {
		return last + 1, nil
	}
	field := r.field(r.indexes.seq)
	n, err := strconv.ParseInt(string(field), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("seq: want a whole number of 64 bits, got %q", clip(field))
	}
	if seen && n <= last {
		return 0, fmt.Errorf("stream %q: seq %d after %d, want it to increase", clip([]byte(stream)), n, last)
	}
	return n, nil
}

// parseTime parses a time in nanoseconds.
func (r *csvReader) parseTime(field []byte) (int64, error) {
	if len(field) == 0 {
		return archive.NoTime, nil
	}
	if n, err := strconv.ParseInt(string(field), 10, 64); err == nil {
		if !r.checked {
			r.checked = true
			if err := timeunit.CheckTime(n, r.ticks, "time: the first is", "; specify the unit (import --time-unit)"); err != nil {
				return 0, err
			}
		}
		ns, ok := timeunit.Nanoseconds(n, r.ticks)
		if !ok {
			return 0, fmt.Errorf("time: %d is out of the range of 64-bit nanoseconds (1678 to 2262); specify another unit (import --time-unit)", n)
		}
		return ns, nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(field))
	if err != nil {
		return 0, fmt.Errorf("time: want RFC 3339 (2006-01-02T15:04:05.999Z) or a whole number since 1970, in nanoseconds or the unit of --time-unit, got %q", clip(field))
	}
	if ns := t.UnixNano(); time.Unix(0, ns).Equal(t) {
		return ns, nil
	}
	return 0, fmt.Errorf("time: %q is out of the range of 64-bit nanoseconds (1678 to 2262)", clip(field))
}

func parseBool(field []byte) (bool, error) {
	switch strings.ToLower(string(field)) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, fmt.Errorf("end: want true, false, 1, 0 or nothing, got %q", clip(field))
}

// splitCSV appends the fields of a line to fields. The fields point into line, except for
// fields with doubled quotes.
func splitCSV(line []byte, fields [][]byte) ([][]byte, error) {
	for {
		// A quote after blanks opens a field as well.
		if quoted := bytes.TrimLeft(line, " \t"); len(quoted) > 0 && quoted[0] == '"' {
			line = quoted
		} else {
			field, rest, more := bytes.Cut(line, []byte{','})
			fields = append(fields, field)
			if !more {
				return fields, nil
			}
			line = rest
			continue
		}
		field, rest, err := cutQuoted(line[1:])
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
		if rest = bytes.TrimLeft(rest, " \t"); len(rest) == 0 {
			return fields, nil
		}
		if rest[0] != ',' {
			return nil, fmt.Errorf("text after the closing quote, want a comma: %q", clip(rest))
		}
		line = rest[1:]
	}
}

// cutQuoted cuts a quoted field, without its opening quote, from the front.
func cutQuoted(text []byte) (field, rest []byte, err error) {
	from := 0
	for {
		i := bytes.IndexByte(text[from:], '"')
		if i < 0 {
			return nil, nil, fmt.Errorf("a quote is not closed on the same line: %q", clip(text))
		}
		end := from + i
		if end+1 == len(text) || text[end+1] != '"' {
			return bytes.ReplaceAll(text[:end], []byte(`""`), []byte(`"`)), text[end+1:], nil
		}
		from = end + 2
	}
}
