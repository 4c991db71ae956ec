package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
)

// LabelFile is the labels of samples of streams. It replaces a recording's column label.
//
// The format is CSV with a header line, with the columns stream and label, and from and to (RFC 3339, or ns since
// 1970; the samples from from until before to), or seq and row (of the prediction of a sequence), or all four, with
// two filled on each line; other columns are ignored. labels export prints this format. The other format is JSON
// lines with these fields, as labels list --json prints.
type LabelFile struct {
	path  string
	spans map[string][]labelSpan // of each stream, ascending
	told  map[toldAt]toldLabel
	tells bool // labels of predictions exist
	seen  labeled
}

// labelSpan is samples of a label.
type labelSpan struct {
	from, to int64 // [from, to)
	label    string
	line     int
	lines    int  // lines with this label
	used     bool // a sample has the label
}

// toldAt is a prediction: its stream, and the place of its last sample.
type toldAt struct {
	stream       string
	message, row int64
}

type toldLabel struct {
	label string
	line  int
	input int64 // the message that has it; 0: none was seen
}

// mostLabels bounds the memory: 10 million lines take about a gigabyte.
const mostLabels = 10_000_000

// longestLabelLine is in bytes: names of 256 bytes, and JSON may write each byte as six.
const longestLabelLine = 64 << 10

// ReadLabels reads a file of labels. Errors name the line.
func ReadLabels(path string) (*LabelFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	defer f.Close()
	return readLabels(path, f)
}

func readLabels(path string, in io.Reader) (*LabelFile, error) {
	l := &LabelFile{path: path, spans: map[string][]labelSpan{}, told: map[toldAt]toldLabel{}}
	lines := bufio.NewReaderSize(in, longestLabelLine)
	read := l.readCSV
	if first, err := lines.Peek(1); err == nil && first[0] == '{' {
		read = l.readJSON
	}
	if err := read(lines); err != nil {
		return nil, datafile.InContent(err)
	}
	return l, datafile.InContent(l.order())
}

// labelLine is the fields of a line: text, possibly empty.
type labelLine struct{ stream, from, to, seq, row, label string }

// fault names the line of an error.
func (l *LabelFile) fault(line int, format string, args ...any) error {
	return fmt.Errorf("offline: %s:%d: %w", l.path, line, fmt.Errorf(format, args...))
}

func (l *LabelFile) readCSV(in *bufio.Reader) error {
	r := csv.NewReader(in)
	r.ReuseRecord, r.FieldsPerRecord = true, -1
	head, err := r.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("offline: %s is empty, want a header line: stream,from,to,label", l.path)
		}
		return fmt.Errorf("offline: %s: %w", l.path, err)
	}
	columns := map[string]int{}
	for i, name := range head {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if _, twice := columns[name]; twice {
			return l.fault(1, "column %q is there twice", names.Cut(name, 40))
		}
		columns[name] = i
	}
	for _, need := range []string{"stream", "label"} {
		if _, ok := columns[need]; !ok {
			return l.fault(1, "column %q is missing: want a header line such as stream,from,to,label", need)
		}
	}
	width := len(head)
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("offline: %s: %w", l.path, err)
		}
		line, _ := r.FieldPos(0)
		if len(row) != width {
			return l.fault(line, "%d fields, the header line has %d", len(row), width)
		}
		get := func(name string) string {
			if i, ok := columns[name]; ok {
				return strings.TrimSpace(row[i])
			}
			return ""
		}
		if err := l.add(line, labelLine{get("stream"), get("from"), get("to"), get("seq"), get("row"), get("label")}); err != nil {
			return err
		}
	}
}

func (l *LabelFile) readJSON(in *bufio.Reader) error {
	for line := 1; ; line++ {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return l.fault(line, "more than %d bytes", longestLabelLine)
		}
		if over := errors.Is(err, io.EOF); err != nil && !over {
			return fmt.Errorf("offline: %s: %w", l.path, err)
		} else if over && len(text) == 0 {
			return nil
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var v struct {
			Stream, From, To, Label string
			Seq, Row                json.Number
			Withdrawn               bool
		}
		if err := json.Unmarshal(text, &v); err != nil {
			return l.fault(line, "want JSON with stream, label, and from and to, or seq and row: %w", err)
		}
		if v.Withdrawn {
			return l.fault(line, "the label is withdrawn: want only labels that are not withdrawn")
		}
		if err := l.add(line, labelLine{v.Stream, v.From, v.To, v.Seq.String(), v.Row.String(), v.Label}); err != nil {
			return err
		}
	}
}

// add takes a line.
func (l *LabelFile) add(line int, t labelLine) error {
	if t == (labelLine{}) {
		return nil
	}
	for what, name := range map[string]string{"stream": t.stream, "label": t.label} {
		if name == "" {
			return l.fault(line, "%s is empty", what)
		}
		if err := names.Check(what, name); err != nil {
			return l.fault(line, "%w", err)
		}
	}
	if len(l.told)+line > mostLabels {
		return l.fault(line, "more than %d labels", mostLabels)
	}
	span, place := t.from != "" || t.to != "", t.seq != "" || t.row != ""
	if span == place {
		return l.fault(line, "want from and to, or seq and row")
	}
	if place {
		return l.addTold(line, t)
	}
	from, err := timeunit.Parse("from", t.from)
	if err != nil {
		return l.fault(line, "%w", err)
	}
	to, err := timeunit.Parse("to", t.to)
	if err != nil {
		return l.fault(line, "%w", err)
	}
	if from >= to {
		return l.fault(line, "from %s is not before to %s", t.from, t.to)
	}
	l.spans[t.stream] = append(l.spans[t.stream], labelSpan{from: from, to: to, label: t.label, line: line, lines: 1})
	return nil
}

func (l *LabelFile) addTold(line int, t labelLine) error {
	seq, err := strconv.ParseInt(t.seq, 10, 64)
	if err != nil || seq < 1 {
		return l.fault(line, "seq %q, want a number from 1", t.seq)
	}
	row, err := strconv.ParseInt(t.row, 10, 64)
	if err != nil || row < 0 || row > math.MaxUint32 {
		return l.fault(line, "row %q, want a number from 0", t.row)
	}
	at := toldAt{t.stream, seq, row}
	if before, twice := l.told[at]; twice && before.label != t.label {
		return l.fault(line, "stream %q, seq %d, row %d is %q, but %q in line %d: want one label", t.stream, seq, row, t.label, before.label, before.line)
	}
	l.told[at] = toldLabel{label: t.label, line: line}
	return nil
}

// order sorts the spans, and refuses contradictory spans.
func (l *LabelFile) order() error {
	for stream, all := range l.spans {
		slices.SortStableFunc(all, func(a, b labelSpan) int { return cmp.Compare(a.from, b.from) })
		joined := all[:0]
		for _, s := range all {
			n := len(joined)
			switch {
			case n == 0 || s.from >= joined[n-1].to:
				joined = append(joined, s)
			case s.label == joined[n-1].label:
				joined[n-1].to = max(joined[n-1].to, s.to)
				joined[n-1].lines++
			default:
				later, earlier := s, joined[n-1]
				if later.line < earlier.line {
					later, earlier = earlier, later
				}
				return l.fault(later.line, "stream %q is %q, but %q in line %d, for some of the same time: want one label", stream, later.label, earlier.label, earlier.line)
			}
		}
		l.spans[stream] = joined
	}
	l.tells = len(l.told) > 0
	return nil
}

// Tells reports whether there are labels of predictions.
func (l *LabelFile) Tells() bool { return l != nil && l.tells }

// set gives the samples of a chunk their labels.
func (l *LabelFile) set(c *RecordingChunk) error {
	if l == nil {
		return nil
	}
	if l.tells && c.Origin.Key == nil {
		return datafile.InContent(fmt.Errorf("offline: %s has labels with seq and row, which name predictions of a job, but the archive has no positions in the input of a job, as a recorded job has; use labels with from and to", l.path))
	}
	l.seen.addChunk(c)
	for i, stream := range c.Stream {
		c.Label[i] = l.at(stream, c.Time[i])
		if !l.tells {
			continue
		}
		at := toldAt{stream, c.Origin.Message[i], c.Origin.Row[i]}
		if t, ok := l.told[at]; ok {
			if t.input != 0 && t.input != c.Origin.Input[i] {
				return datafile.InContent(l.fault(t.line, "stream %q has two samples with seq %d and row %d, in messages %d and %d of the log, because its producer began to count again: give from and to", stream, at.message, at.row, t.input, c.Origin.Input[i]))
			}
			t.input = c.Origin.Input[i]
			l.told[at] = t
			if c.Told == nil {
				c.Told = make([]string, c.Rows())
			}
			c.Told[i] = t.label
		}
	}
	return nil
}

// at is the label of a time; empty without a label.
func (l *LabelFile) at(stream string, t int64) string {
	all := l.spans[stream]
	i, found := slices.BinarySearchFunc(all, t, func(s labelSpan, t int64) int { return cmp.Compare(s.from, t) })
	if !found {
		i--
	}
	if t == NoTime || i < 0 || t >= all[i].to {
		return ""
	}
	all[i].used = true
	return all[i].label
}
