package imports

import (
	"bytes"
	"io"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// readTSV reads the tab-separated files of the UCR archive: a series per line, label
// first, a single channel. All lines have the same number of columns; a shorter series is
// padded with NaN, which is removed (so a series cannot end in a missing value).
func readTSV(src *source) (*part, error) {
	p := &part{channels: 1, labeled: true}
	columns := 0
	for {
		line, err := src.readLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		n := bytes.Count(line, []byte{'\t'}) + 1
		if columns == 0 {
			columns = n
		}
		if n < 2 {
			return nil, src.errorf("no tab in the line: want a label and values separated by tabs")
		}
		if n != columns {
			return nil, src.errorf("the line has %d tab-separated columns, the first has %d", n, columns)
		}
		s, err := tsvSeries(src, line, n-1)
		if err != nil {
			return nil, err
		}
		p.series = append(p.series, s)
	}
	if len(p.series) == 0 {
		return nil, src.errorf("no series: the file is empty")
	}
	return p, nil
}

func tsvSeries(src *source, line []byte, samples int) (rawSeries, error) {
	label, rest, _ := bytes.Cut(line, []byte{'\t'})
	s := rawSeries{label: string(bytes.TrimSpace(label))}
	if s.label == "" {
		return s, src.errorf("the label in column 1 is empty")
	}
	if err := names.Check("label", s.label); err != nil {
		return s, src.errorf("%w", err)
	}
	if err := src.reserve(samples); err != nil {
		return s, err
	}
	s.values = make([]float32, samples)
	for i := range s.values {
		var field []byte
		field, rest, _ = bytes.Cut(rest, []byte{'\t'})
		v, ok := parseValue(field)
		if !ok {
			return s, src.errorf("column %d: want a finite number, ? or NaN, got %q", i+2, clip(field))
		}
		s.values[i] = v
	}
	if s.values = trimPadding(s.values, 1); len(s.values) == 0 {
		return s, src.errorf("every value of the series is missing")
	}
	return s, nil
}
