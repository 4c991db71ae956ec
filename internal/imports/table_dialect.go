package imports

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// blank is the delimiter of tables whose columns are separated by blanks.
const blank = ' '

// dialect is the form of a table in a text file.
type dialect struct {
	delimiter byte // blank: any number of blanks and tabs
	decimal   byte
	header    bool
}

// delimiterBytes are the delimiters by their names.
var delimiterBytes = map[string]byte{",": ',', ";": ';', "|": '|', "tab": '\t', "blank": blank}

// name returns the name of the delimiter.
func (d dialect) name() string {
	for name, b := range delimiterBytes {
		if b == d.delimiter {
			return name
		}
	}
	return ""
}

// split appends the fields of a line to fields.
func (d dialect) split(line []byte, fields [][]byte) ([][]byte, error) {
	if d.delimiter == blank {
		return append(fields, bytes.Fields(line)...), nil
	}
	return splitCSV(line, d.delimiter, fields)
}

// peekLines returns the first lines of the source without reading them. The last line may
// be incomplete if it is the only line.
func (s *source) peekLines() (lines [][]byte) {
	head, _ := s.in.Peek(s.in.Size())
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	whole := bytes.LastIndexByte(head, '\n')
	if whole >= 0 && len(head) >= s.in.Size()-3 {
		head = head[:whole]
	}
	for line := range bytes.Lines(head) {
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// findDialect finds the form of a table by its first lines.
func findDialect(lines [][]byte, t *Table) (d dialect) {
	d.delimiter, d.decimal = findDelimiter(lines, t), '.'
	var rows [][][]byte
	for _, line := range lines {
		if fields, err := d.split(line, nil); err == nil {
			rows = append(rows, fields)
		}
	}
	switch {
	case t.Decimal != "":
		d.decimal = t.Decimal[0]
	case len(rows) > 0 && hasDecimalCommas(rows, d.delimiter):
		d.decimal = ','
	}
	switch {
	case t.Header != "":
		d.header = t.Header == "yes"
	case len(rows) > 0:
		d.header = d.isHeader(rows[0])
	}
	return d
}

func findDelimiter(lines [][]byte, t *Table) byte {
	if t.Delimiter != "" {
		return delimiterBytes[t.Delimiter]
	}
	if len(lines) == 0 {
		return ','
	}
	first, _ := splitCSV(lines[0], ',', nil)
	for _, field := range first {
		if string(bytes.TrimSpace(field)) == kindStream {
			return ','
		}
	}
	if hasBlanksOnly(lines) {
		return blank
	}
	most, best := 1, byte(',')
	for _, delimiter := range []byte{'\t', ';', ',', '|'} {
		n, same := countFields(lines, delimiter)
		if same && n > 1 {
			return delimiter
		}
		if n > most {
			most, best = n, delimiter
		}
	}
	if n := len(bytes.Fields(lines[0])); most == 1 && n > 1 && !slices.ContainsFunc(lines, func(line []byte) bool { return len(bytes.Fields(line)) != n }) {
		return blank
	}
	return best
}

// countFields counts the fields of the first line; same: all lines have this number.
func countFields(lines [][]byte, delimiter byte) (n int, same bool) {
	for i, line := range lines {
		fields, err := splitCSV(line, delimiter, nil)
		if i == 0 {
			n = len(fields)
		}
		if err != nil || len(fields) != n {
			return n, false
		}
	}
	return n, true
}

// hasBlanksOnly reports whether blanks separate numbers in all lines but the first.
func hasBlanksOnly(lines [][]byte) bool {
	n := len(bytes.Fields(lines[0]))
	for i, line := range lines {
		fields := bytes.Fields(line)
		if len(fields) != n || n < 2 {
			return false
		}
		for _, field := range fields {
			if number := isNumeric(field, '.') || isNumeric(field, ',') || isMissing(field); !number && (i > 0 || len(lines) == 1 || bytes.ContainsAny(field, ",;|\"")) {
				return false
			}
		}
	}
	return bytes.IndexByte(lines[0], '\t') < 0
}

// hasDecimalCommas reports whether fields are numbers with a decimal comma, and none with
// a decimal point. Commas before three digits in a file with commas between fields may
// separate thousands.
func hasDecimalCommas(rows [][][]byte, delimiter byte) bool {
	found := false
	for _, row := range rows {
		for _, field := range row {
			field = bytes.TrimSpace(field)
			at := bytes.IndexByte(field, ',')
			switch {
			case at >= 0 && isNumeric(field, ','):
				found = found || delimiter != ',' || len(field)-at-1 != 3
			case bytes.IndexByte(field, '.') >= 0 && isNumeric(field, '.'):
				return false
			}
		}
	}
	return found
}

// isHeader reports whether the fields are names of columns: fewer are values.
func (d dialect) isHeader(fields [][]byte) bool {
	values, names := 0, 0
	for _, field := range fields {
		switch field = bytes.TrimSpace(field); {
		case string(field) == kindStream:
			return true
		case len(field) == 0:
		case isNumeric(field, d.decimal) || isMissing(field):
			values++
		default:
			if _, _, ok := parseTimeText(field, 0); ok {
				return false
			}
			names++
		}
	}
	return names > values
}

// isMissing reports whether a field stands for a missing value.
func isMissing(field []byte) bool {
	switch strings.ToLower(string(field)) {
	case "", "?", "nan", "null", "none", "n/a", "na", "-":
		return true
	}
	return false
}

// isNumeric reports whether a field is a finite number.
func isNumeric(field []byte, decimal byte) bool {
	v, ok := parseNumber(field, decimal)
	return ok && v == v
}

// splitCSV appends the fields of a line to fields. The fields point into line, except for
// fields with doubled quotes.
func splitCSV(line []byte, delimiter byte, fields [][]byte) ([][]byte, error) {
	blanks := " \t"
	if delimiter == '\t' {
		blanks = " "
	}
	for {
		// A quote after blanks opens a field as well.
		if quoted := bytes.TrimLeft(line, blanks); len(quoted) > 0 && quoted[0] == '"' {
			line = quoted
		} else {
			field, rest, more := bytes.Cut(line, []byte{delimiter})
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
		if rest = bytes.TrimLeft(rest, blanks); len(rest) == 0 {
			return fields, nil
		}
		if rest[0] != delimiter {
			return nil, fmt.Errorf("text after the closing quote, want a %s: %q", delimiterText(delimiter), clip(rest))
		}
		line = rest[1:]
	}
}

// delimiterText returns the word for a delimiter.
func delimiterText(delimiter byte) string {
	return map[byte]string{',': "comma", ';': "semicolon", '|': "bar", '\t': "tab"}[delimiter]
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
