package imports

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// csvReader reads the samples of a table: a row per sample. The columns of a CSV recording:
//
//	stream  stream of the sample; without this column the file is one stream
//	seq     whole numbers increasing within a stream; without it samples are counted from 1
//	time    a time (timeLayouts), or a number since 1970; may be empty
//	end     true, false, 1, 0 or empty (false): the sequence ends here
//	label   class; may be empty
//
// Every other column is a channel, in the file's order. Table names other columns.
type csvReader struct {
	set     *tableSet
	rows    rowReader
	decimal byte
	stream  string // without a column for streams
	columns int
	indexes struct{ stream, seq, time, end, label, group, target int } // column numbers, -1 for none
	values  []int                                                      // column numbers of the channels
}

// readColumns finds the columns of the set in a table.
func (s *tableSet) readColumns(rows rowReader, stream string) (*csvReader, error) {
	r := &csvReader{set: s, rows: rows, stream: stream, decimal: '.'}
	if d, isText := rows.form(); isText {
		r.decimal = d.decimal
	}
	header, err := s.t.columnNames(rows)
	if err != nil {
		return nil, err
	}
	if text, ok := rows.(*textRows); ok && text.latin && len(s.notes) == 0 {
		s.addNote("%s is not UTF-8, and is read as Latin-1", filepath.Base(text.src.name))
	}
	if err := s.findColumns(rows, header); err != nil {
		return nil, err
	}
	r.columns = len(header)
	places := make(map[string]int, len(header))
	for i, name := range header {
		places[name] = i
	}
	for kind, to := range map[string]*int{kindStream: &r.indexes.stream, kindSeq: &r.indexes.seq, kindTime: &r.indexes.time,
		kindEnd: &r.indexes.end, kindLabel: &r.indexes.label, kindGroup: &r.indexes.group, kindTarget: &r.indexes.target} {
		if *to, err = s.locate(places, kind); err != nil {
			return nil, rows.errorf("%w", err)
		}
	}
	for _, c := range s.columns {
		if c.Kind != kindChannel {
			continue
		}
		at, found := places[c.Name]
		if !found {
			return nil, rows.errorf("no column %q, which the first file has", names.Cut(c.Name, 40))
		}
		r.values = append(r.values, at)
	}
	return r, nil
}

// columnNames returns the names of a table's columns.
func (t *Table) columnNames(rows rowReader) ([]string, error) {
	header, first := rows.header(), rows.peekRows()
	if text, ok := rows.(*textRows); ok && text.cut && header == nil {
		return nil, rows.errorf("the first line is longer than %d KiB and has no names of columns: want a header line, a row as a run, or the table transposed", peekSize>>10)
	}
	if header == nil && len(first) > 0 {
		for i := range first[0] {
			header = append(header, fmt.Sprintf("c%d", i+1))
		}
	}
	if n := len(header); n > datafile.MaxChannels {
		return nil, rows.errorf("%d columns, want at most %d", n, datafile.MaxChannels)
	}
	if len(t.Names) > 0 {
		if len(t.Names) != len(header) {
			return nil, rows.errorf("%d columns, %d names are given", len(header), len(t.Names))
		}
		header = t.Names
	}
	return header, nil
}

// findColumns resolves the columns of the first file, and the new columns of a later file.
func (s *tableSet) findColumns(rows rowReader, header []string) (err error) {
	if s.columns != nil && !slices.ContainsFunc(header, func(name string) bool { return !s.named[name] }) {
		return nil
	}
	var found []Column
	given := slices.Clone(header)
	if !slices.Contains(header, kindStream) { // columns without a name are ignored
		for i, name := range given {
			if name == "" {
				given[i] = fmt.Sprintf("column %d", i+1)
			}
		}
	}
	d, _ := rows.form()
	if d.decimal == 0 {
		d.decimal = '.'
	}
	if err = names.CheckAll("column", given); err == nil {
		found, err = s.t.resolveColumns(header, rows.peekRows(), d, len(s.files) > 1)
	}
	if err != nil {
		return rows.errorf("%w; the header has: %q", err, clip([]byte(strings.Join(header, ", "))))
	}
	if s.columns != nil {
		return s.addColumns(rows, found)
	}
	s.columns, s.named = found, map[string]bool{}
	for _, c := range found {
		s.named[c.Name] = true
	}
	for i := range s.columns {
		if c := &s.columns[i]; c.Kind == kindChannel {
			s.Channels = append(s.Channels, c.outName())
		}
	}
	s.findProfiles()
	return nil
}

// addColumns adds the columns of a later file that the first file lacks.
func (s *tableSet) addColumns(rows rowReader, found []Column) error {
	for _, c := range found {
		if s.named[c.Name] {
			continue
		}
		if c.Kind == kindChannel {
			return rows.errorf("column %q, which the first file lacks: leave the column out, or the file", names.Cut(c.Name, 40))
		}
		if !slices.Contains(optionalKinds, c.Kind) || s.columnOf(c.Kind) != nil {
			c.Kind = kindIgnored
		}
		s.columns, s.named[c.Name] = append(s.columns, c), true
	}
	s.findProfiles()
	return nil
}

// findProfiles finds the profiles of the channels.
func (s *tableSet) findProfiles() {
	s.profiles = s.profiles[:0]
	for i := range s.columns {
		if s.columns[i].Kind == kindChannel {
			s.profiles = append(s.profiles, &s.columns[i].Profile)
		}
	}
}

// locate finds the column of a kind in the places of a header's names; -1: none.
func (s *tableSet) locate(places map[string]int, kind string) (int, error) {
	c := s.columnOf(kind)
	if c == nil {
		return -1, nil
	}
	at, found := places[c.Name]
	if !found && len(s.files) > 1 && slices.Contains(optionalKinds, kind) {
		return -1, nil
	}
	if !found {
		return -1, fmt.Errorf("no column %q, which is the %s in the first file", names.Cut(c.Name, 40), kind)
	}
	return at, nil
}

// columnOf returns the column of a kind, nil if there is none.
func (s *tableSet) columnOf(kind string) *Column {
	for i := range s.columns {
		if s.columns[i].Kind == kind {
			return &s.columns[i]
		}
	}
	return nil
}

// readSample appends the next row to c; it returns io.EOF at the end.
func (r *csvReader) readSample(c *archive.RecordingChunk) error {
	fields, err := r.rows.readRow()
	if err == nil {
		if len(fields) != r.columns {
			return r.rows.errorf("the line has %d fields, the header %d", len(fields), r.columns)
		}
		if err = r.parseSample(fields, c); err != nil {
			return r.rows.errorf("%w", err)
		}
	}
	return err
}

// parseSample appends a row to c.
func (r *csvReader) parseSample(fields [][]byte, c *archive.RecordingChunk) (err error) {
	get := func(column int) []byte {
		if column < 0 {
			return nil
		}
		return trimField(fields[column])
	}
	p := sample{stream: r.stream}
	if r.indexes.stream >= 0 {
		p.stream = string(get(r.indexes.stream))
	}
	if p.stream == "" {
		return fmt.Errorf("the stream is empty")
	}
	if err := names.Check("stream", p.stream); err != nil {
		return err
	}
	if p.seq, err = r.parseSeq(p.stream, get(r.indexes.seq)); err != nil {
		return err
	}
	if p.time, err = r.set.clock.parseTime(get(r.indexes.time), r.decimal); err != nil {
		return err
	}
	if p.end, err = parseBool(get(r.indexes.end)); err != nil {
		return err
	}
	p.label, p.group, p.number = textOf(get(r.indexes.label), r.decimal), string(get(r.indexes.group)), nan
	if field := get(r.indexes.target); !isMissing(field) {
		var ok bool
		if p.number, ok = parseNumber(field, r.decimal); !ok {
			return fmt.Errorf("column %q: want a number to learn, or nothing, got %q", r.set.columnOf(kindTarget).Name, clip(field))
		}
	}
	for k, i := range r.values {
		v, ok := parseCell(get(i), r.decimal)
		if !ok {
			return fmt.Errorf("column %q: want a finite number, or nothing, ? or NaN for a missing value, got %q", r.set.Channels[k], clip(fields[i]))
		}
		c.Values = append(c.Values, v)
	}
	return r.set.addSample(c, p)
}

// textOf returns a label: a number with a decimal point.
func textOf(field []byte, decimal byte) string {
	if decimal == ',' && isNumeric(field, ',') {
		return strings.Replace(string(field), ",", ".", 1)
	}
	return string(field)
}

// trimField returns a field without surrounding blanks.
func trimField(field []byte) []byte { return bytes.TrimSpace(field) }

// parseCell parses a value of a channel.
func parseCell(field []byte, decimal byte) (float32, bool) {
	if len(field) == 0 {
		return nan32, true
	}
	if decimal == ',' && bytes.IndexByte(field, ',') >= 0 {
		if bytes.IndexByte(field, '.') >= 0 {
			return 0, false
		}
		field = bytes.Replace(field, []byte{','}, []byte{'.'}, 1)
	}
	v, ok := parseValue(field)
	if !ok && isMissing(field) {
		return nan32, true
	}
	return v, ok
}

func (r *csvReader) parseSeq(stream string, field []byte) (int64, error) {
	last, seen := r.set.last[stream]
	if r.indexes.seq < 0 {
		return last + 1, nil
	}
	n, err := strconv.ParseInt(string(field), 10, 64)
	if v, ok := parseNumber(field, r.decimal); err != nil && ok && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		n, err = int64(v), nil
	}
	if err != nil {
		return 0, fmt.Errorf("seq: want a whole number of 64 bits, got %q", clip(field))
	}
	if seen && n <= last {
		return 0, fmt.Errorf("stream %q: seq %d after %d, want it to increase", clip([]byte(stream)), n, last)
	}
	return n, nil
}

func parseBool(field []byte) (bool, error) {
	switch strings.ToLower(string(field)) {
	case "", "false", "0", "0.0":
		return false, nil
	case "true", "1", "1.0":
		return true, nil
	}
	return false, fmt.Errorf("end: want true, false, 1, 0 or nothing, got %q", clip(field))
}
