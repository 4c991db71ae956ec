package imports

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// arffReader reads the .arff files of the UEA and UCR archives. A univariate problem has
// a numeric attribute per sample, a multivariate problem a single relational attribute
// whose quoted value holds a channel per line (the lines separated by a backslash and n).
// The nominal class attribute is last. Short series are padded with missing values, which
// are removed.
type arffReader struct {
	src        *source
	out        part
	relational bool
	inside     bool // between @attribute NAME relational and @end NAME
	samples    int  // number of numeric attributes, the samples
	known      map[string]bool
	scratch    []float32
}

func readARFF(src *source) (*part, error) {
	r := &arffReader{src: src, out: part{channels: 1, labeled: true}}
	for data := false; ; {
		line, err := src.readLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '%':
		case data:
			err = r.parseRow(line)
		default:
			data, err = r.declare(line)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(r.out.series) == 0 {
		return nil, src.errorf("no series: want header, @data and a line for each series; the file is truncated or no .arff file")
	}
	return &r.out, nil
}

// declare parses a header line and reports whether data follow.
func (r *arffReader) declare(line []byte) (data bool, err error) {
	if !utf8.Valid(line) {
		return false, r.src.errorf("the header line is not valid UTF-8")
	}
	word, rest, _ := strings.Cut(strings.ReplaceAll(string(line), "\t", " "), " ")
	switch strings.ToLower(word) {
	case "@relation":
		r.out.problem = unquote(rest)
	case "@attribute":
		err = r.attribute(strings.TrimSpace(rest))
	case "@end":
		if !r.inside {
			return false, r.src.errorf("@end without a relational attribute")
		}
		r.inside = false
	case "@data":
		return true, r.checkHeader()
	default:
		err = r.src.errorf("want @relation, @attribute, @end or @data, got %q", clip(line))
	}
	return false, err
}

func (r *arffReader) attribute(text string) error {
	kind, ok := typeOf(text)
	if !ok {
		return r.src.errorf("want @attribute NAME TYPE, got %q", clip([]byte(text)))
	}
	if r.known != nil {
		return r.src.errorf("an attribute after the nominal attribute: want the class attribute last and no other nominal attribute")
	}
	switch low := strings.ToLower(kind); {
	case r.inside && strings.HasPrefix(kind, "{"):
		return r.src.errorf("the class attribute is inside the relational attribute, want @end before the class attribute")
	case low == "numeric" || low == "real" || low == "integer":
		if r.relational && !r.inside {
			return r.src.errorf("a numeric attribute next to a relational attribute, want only the class attribute")
		}
		r.samples++
	case low == "relational":
		if r.relational || r.samples > 0 {
			return r.src.errorf("a relational attribute next to other attributes, want only a relational and the class attribute")
		}
		r.relational, r.inside = true, true
	case strings.HasPrefix(kind, "{") && strings.HasSuffix(kind, "}"):
		return r.classes(kind[1 : len(kind)-1])
	default:
		return r.src.errorf("attribute of type %q, want numeric, relational, or the classes in braces", clip([]byte(kind)))
	}
	return nil
}

// typeOf returns TYPE of NAME TYPE; the name may be quoted.
func typeOf(text string) (kind string, ok bool) {
	if text != "" && (text[0] == '\'' || text[0] == '"') {
		end := closingQuote(text)
		if end < 0 {
			return "", false
		}
		kind, ok = text[end+1:], true
	} else {
		_, kind, ok = strings.Cut(text, " ")
	}
	kind = strings.TrimSpace(kind)
	return kind, ok && kind != ""
}

func (r *arffReader) classes(list string) error {
	r.known = make(map[string]bool)
	for _, c := range splitNominal(list) {
		c = unquote(c)
		if err := names.Check("class name", c); err != nil {
			return r.src.errorf("%w", err)
		}
		if c == "" || r.known[c] {
			return r.src.errorf("class %q is empty or given twice", clip([]byte(c)))
		}
		r.known[c] = true
		r.out.classes = append(r.out.classes, c)
	}
	return nil
}

// unquote removes blanks, quotes and escaping backslashes.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if n := len(s); n >= 2 && isQuote(s[0]) && s[n-1] == s[0] {
		s = s[1 : n-1]
	}
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isQuote(c byte) bool { return c == '\'' || c == '"' }

// closingQuote returns the index of the quote that ends the quoted text at the beginning
// of s; -1 if there is none.
func closingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i
		}
	}
	return -1
}

// splitNominal splits at the commas outside quotes.
func splitNominal(list string) (fields []string) {
	for at := 0; at < len(list); at++ {
		blank := strings.TrimSpace(list[:at]) == ""
		switch c := list[at]; {
		case c == '\\':
			at++
		case isQuote(c) && blank:
			if end := closingQuote(list[at:]); end > 0 {
				at += end
			}
		case c == ',':
			fields, list, at = append(fields, list[:at]), list[at+1:], -1
		}
	}
	return append(fields, list)
}

// lastField returns the index of the comma before the last field of a line, which may be
// quoted; -1 if there is none.
func lastField(line []byte) int {
	n := len(line)
	if !isQuote(line[n-1]) {
		return bytes.LastIndexByte(line, ',')
	}
	for at := n - 2; at > 0; at-- { // backward to the opening quote
		if line[at] != line[n-1] {
			continue
		}
		before := bytes.TrimRight(line[:at], " \t")
		if len(before) > 0 && before[len(before)-1] == ',' && closingQuote(string(line[at:])) == n-1-at {
			return len(before) - 1
		}
	}
	return bytes.LastIndexByte(line, ',')
}

func (r *arffReader) checkHeader() error {
	switch {
	case r.inside:
		return r.src.errorf("@data inside the relational attribute, want @end before @data")
	case r.known == nil:
		return r.src.errorf("no nominal class attribute: want the classes in braces as the last attribute (regression is not supported)")
	case r.samples == 0:
		return r.src.errorf("no numeric attributes before the class")
	}
	return nil
}

// parseRow parses a data line.
func (r *arffReader) parseRow(line []byte) error {
	if line[0] == '{' {
		return r.src.errorf("sparse rows are not supported, want all values of the series")
	}
	cut := lastField(line)
	if cut < 0 {
		return r.src.errorf("no comma in the line: want values and the class label separated by commas")
	}
	s := rawSeries{label: unquote(string(line[cut+1:]))}
	if !r.known[s.label] && !r.out.matchDeclared(&s.label) {
		return r.src.errorf("label %q is not among the %d classes of the header", clip([]byte(s.label)), len(r.out.classes))
	}
	channels := [][]byte{line[:cut]}
	if r.relational {
		var err error
		if channels, err = r.splitQuoted(bytes.TrimSpace(line[:cut])); err != nil {
			return err
		}
	}
	if err := r.parseValues(channels); err != nil {
		return err
	}
	s.values = trimPadding(interleave(r.scratch, len(channels)), len(channels))
	if len(s.values) == 0 {
		return r.src.errorf("every value of the series is missing")
	}
	s.values = slices.Clip(s.values)
	r.out.series = append(r.out.series, s)
	return nil
}

// splitQuoted splits the value of the relational attribute into channels.
func (r *arffReader) splitQuoted(text []byte) ([][]byte, error) {
	n := len(text)
	if n < 2 || text[0] != '\'' && text[0] != '"' || text[n-1] != text[0] || bytes.IndexByte(text[1:n-1], text[0]) >= 0 {
		return nil, r.src.errorf("want the relational value in one pair of quotes, got %q", clip(text))
	}
	if n := bytes.Count(text, []byte(`\n`)) + 1; n > datafile.MaxChannels {
		return nil, r.src.errorf("the series has %d channels, want at most %d", n, datafile.MaxChannels)
	}
	channels := bytes.Split(text[1:n-1], []byte(`\n`))
	if len(r.out.series) > 0 && len(channels) != r.out.channels {
		return nil, r.src.errorf("the series has %d channels, the first has %d", len(channels), r.out.channels)
	}
	r.out.channels = len(channels)
	return channels, nil
}

// parseValues parses all channels of a row into scratch.
func (r *arffReader) parseValues(channels [][]byte) error {
	if err := r.src.reserve(len(channels) * r.samples); err != nil {
		return err
	}
	r.scratch = r.scratch[:0]
	for c, text := range channels {
		if n := bytes.Count(text, []byte{','}) + 1; n != r.samples {
			return r.src.errorf("channel %d has %d values, the header declares %d", c+1, n, r.samples)
		}
		for i := range r.samples {
			var field []byte
			field, text, _ = bytes.Cut(text, []byte{','})
			v, ok := parseValue(field)
			if !ok {
				return r.src.errorf("value %d of channel %d: want a finite number, ? or NaN, got %q", i+1, c+1, clip(field))
			}
			r.scratch = append(r.scratch, v)
		}
	}
	return nil
}
