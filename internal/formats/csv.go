package formats

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
)

// csvDecoder reads lines of cells. The first line has the names of the columns, unless
// all sources are positions.
type csvDecoder struct {
	table
	named   bool
	header  []string // the columns in indexes
	indexes []int    // column of each channel, then time, stream and end; -1: absent
	in      bytes.Reader
}

func newCSV(l *layout) (*csvDecoder, error) {
	d := &csvDecoder{table: newTable(l, CSV), indexes: make([]int, len(l.channels)+3)}
	var byName, byPosition string
	taken := map[step]string{}
	for i, key := range d.keys() {
		s := d.source(i)
		switch {
		case len(s.steps) != 1:
			return nil, fmt.Errorf("formats: %s is %q: want the name of a column, or its position such as [0], in CSV", key, s.text)
		case taken[s.steps[0]] != "" && !(d.isOptional(i) && d.isPreset(i)):
			return nil, fmt.Errorf("formats: %s is %q, which is %s", key, s.text, taken[s.steps[0]])
		case d.isOptional(i) && d.isPreset(i): // found by name if there are names
		case s.steps[0].index < 0:
			byName = key
		case i < len(l.channels):
			byPosition = key
		}
		taken[s.steps[0]] = key
	}
	switch d.named = byName != ""; {
	case d.named && byPosition != "" && !slices.ContainsFunc(l.channels, func(s source) bool { return s.steps[0].index < 0 }):
		return nil, fmt.Errorf("formats: %s is a name, but the channels are positions: want names for all, or positions for all, in CSV", byName)
	case !d.named:
		for i := range d.indexes {
			d.indexes[i] = d.source(i).steps[0].index // -1 for sources with a name
		}
	}
	return d, nil
}

// keys returns the settings of all sources, in the order of indexes.
func (d *csvDecoder) keys() []string {
	var all []string
	for _, name := range d.schema.Channels {
		all = append(all, fmt.Sprintf("input.channels of %q", name))
	}
	return append(all, "input.time", "input.stream", "input.end")
}

func (d *csvDecoder) source(i int) *source {
	switch i - len(d.channels) {
	case 0:
		return &d.layout.time
	case 1:
		return &d.layout.stream
	case 2:
		return &d.layout.end
	}
	return &d.channels[i]
}

func (d *csvDecoder) isOptional(i int) bool { return i >= len(d.channels) }

// isPreset reports whether a source has its default.
func (d *csvDecoder) isPreset(i int) bool {
	return [...]string{d.Time, d.Stream, d.End}[i-len(d.channels)] == ""
}

// Decode implements Decoder.
func (d *csvDecoder) Decode(payload []byte, b *codec.Batch) error {
	b.Reset()
	d.beginMessage()
	d.in.Reset(bytes.TrimPrefix(payload, byteOrderMark))
	err := d.decodeLines(b)
	d.in.Reset(nil)
	if err != nil {
		b.Reset()
	}
	return err
}

func (d *csvDecoder) decodeLines(b *codec.Batch) error {
	r := csv.NewReader(&d.in)
	r.Comma, r.ReuseRecord, r.TrimLeadingSpace = rune(d.Separator[0]), true, d.Separator != "\t"
	if d.named {
		cells, err := r.Read()
		if err == io.EOF {
			return malformed(CSV, "no line, want one with the names of the columns")
		}
		if err != nil {
			return d.syntaxError(err)
		}
		if err := d.findColumns(cells); err != nil {
			return err
		}
	}
	for {
		cells, err := r.Read()
		if err == io.EOF {
			return d.endMessage(b)
		}
		if err != nil {
			return d.syntaxError(err)
		}
		if err := d.readLine(cells, b); err != nil {
			return err
		}
	}
}

// findColumns finds the columns by a header.
func (d *csvDecoder) findColumns(cells []string) error {
	if slices.Equal(cells, d.header) {
		return nil
	}
	d.header = nil
	names := make(map[string]int, len(cells))
	for i, cell := range cells {
		name := strings.TrimSpace(cell)
		if _, again := names[name]; again && d.isWanted(name) {
			return mismatch(CSV, "two columns are named %s", short([]byte(name)))
		}
		names[name] = i
	}
	for i := range d.indexes {
		s := d.source(i).steps[0]
		d.indexes[i] = s.index
		if s.index >= 0 {
			continue
		}
		at, ok := names[s.name]
		switch {
		case ok:
			d.indexes[i] = at
		case i < len(d.channels):
			return d.noColumn(i, cells)
		case !d.isPreset(i) && i < len(d.channels)+2: // an end mark is always optional
			return mismatch(CSV, "no column %q (%s), only %s", s.name, d.keys()[i], list(clean(cells)))
		}
	}
	d.header = slices.Clone(cells)
	for i, cell := range d.header {
		d.header[i] = strings.Clone(cell) // cells of a line share its bytes
	}
	return nil
}

// isWanted reports whether a source names the column.
func (d *csvDecoder) isWanted(name string) bool {
	for i := range d.indexes {
		if s := d.source(i).steps[0]; s.index < 0 && s.name == name {
			return true
		}
	}
	return false
}

// noColumn returns the error of a channel without a column; a line of numbers is no
// header.
func (d *csvDecoder) noColumn(c int, cells []string) error {
	if !slices.ContainsFunc(cells, func(s string) bool { return !isDecimal([]byte(strings.TrimSpace(s))) }) {
		return mismatch(CSV, "the first line has numbers (%s) and no names: set input.channels to positions, such as {%s: \"[0]\"}, or send a line of names first", list(clean(cells)), d.schema.Channels[c])
	}
	if strings.HasPrefix(strings.TrimSpace(cells[0]), "#") {
		return mismatch(CSV, "the first line is a comment, %s: CSV has none here, begin with the line of names", short([]byte(cells[0])))
	}
	if at := strings.IndexAny(cells[0], ",;\t|"); len(cells) == 1 && at >= 0 {
		return mismatch(CSV, "the first line is one cell, %s: set input.csv_separator to %q", short([]byte(cells[0])), cells[0][at:at+1])
	}
	return d.missing(CSV, 0, c, clean(cells))
}

// clean returns cells in the form of error messages.
func clean(cells []string) []string {
	var all []string
	for _, cell := range cells[:min(len(cells), mostNames)] {
		cell = strings.TrimSpace(cell)
		if len(cell) > 60 {
			cell = cell[:60] + "..."
		}
		all = append(all, strings.ToValidUTF8(cell, "?"))
	}
	return all
}

// readLine reads a row.
func (d *csvDecoder) readLine(cells []string, b *codec.Batch) error {
	d.beginRecord()
	for i, at := range d.indexes {
		switch {
		case at >= len(cells):
			return mismatch(CSV, "row %d has %d cells, but %s is %q", b.Rows, len(cells), d.keys()[i], d.source(i).text)
		case at >= 0:
			if !d.readCell(i, strings.TrimSpace(cells[at])) {
				return d.wrongValue(i, b.Rows, cells[at])
			}
		}
	}
	return d.endRecord(b)
}

// readCell reads a cell of a source; false for an invalid value.
func (d *csvDecoder) readCell(i int, cell string) bool {
	var room [32]byte
	text := append(room[:0], cell...)
	switch i - len(d.channels) {
	case 0:
		ns, ok := int64(codec.NoTime), true
		if len(text) > 0 {
			ns, ok = timeOf(text, digitsOf[d.TimeUnit])
		}
		d.row.times = append(d.row.times, ns)
		return ok
	case 1:
		d.row.addStream(text)
		return len(text) > 0
	case 2:
		end, ok := truthOf(text)
		d.row.ends = append(d.row.ends, end)
		return ok
	}
	x, ok := codec.Null(), true
	if len(text) > 0 {
		x, ok = d.channels[i].fromText(text)
	}
	d.cols[i] = append(d.cols[i], x)
	return ok
}

// truthOf parses an end mark.
func truthOf(text []byte) (yes, ok bool) {
	switch {
	case len(text) == 0 || string(text) == "0" || bytes.EqualFold(text, []byte("false")):
		return false, true
	case string(text) == "1" || bytes.EqualFold(text, []byte("true")):
		return true, true
	}
	return false, false
}

func (d *csvDecoder) wrongValue(i, row int, cell string) error {
	want := "a number, or nothing where there is no value"
	switch i - len(d.channels) {
	case 0:
		want = fmt.Sprintf("a number of %s since 1970 or a text such as 2026-01-31T12:00:00Z", d.TimeUnit)
	case 1:
		want = "a stream id"
	case 2:
		want = "true, false, 1 or 0"
	}
	return mismatch(CSV, "row %d, column %q (%s): want %s, got %s", row, d.source(i).text, d.keys()[i], want, short([]byte(cell)))
}

// syntaxError explains the reader's error.
func (d *csvDecoder) syntaxError(err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return malformed(CSV, "%v", err)
	}
	if errors.Is(err, csv.ErrFieldCount) {
		return malformed(CSV, "line %d has another number of cells than the first line", parse.Line)
	}
	return malformed(CSV, "line %d: %v", parse.Line, parse.Err)
}
