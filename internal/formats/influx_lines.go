package formats

// LineScanner finds the ends of lines of line protocol in a stream of bytes, for any
// segmentation. A line feed in a quoted field value does not end a line. In an invalid
// line, every possible quoted value counts as a quoted value: text quoted by a device
// never becomes a separate line. The zero value is at the beginning of a line.
type LineScanner struct {
	in   linePlace
	prev byte
}

// linePlace is a place in a line.
type linePlace byte

const (
	lineBegin   linePlace = iota // only blanks so far
	lineComment                  // after #
	lineTags                     // measurement and tags
	lineKey                      // of a field; also the time, and other text after a value
	lineEquals                   // after the = of a field
	lineValue                    // of a field, without quotes
	lineQuoted                   // of a field, in quotes
	lineEscape                   // after \ in quotes
)

// End reads b up to the end of the line, and returns the number of bytes read; 0: b has
// no end of a line, and the scanner has read all of b.
func (s *LineScanner) End(b []byte) int {
	for i, c := range b {
		prev := s.prev
		if s.prev = c; c == '\n' && s.in < lineQuoted {
			*s = LineScanner{}
			return i + 1
		}
		switch s.in {
		case lineBegin:
			if c == '#' {
				s.in = lineComment
			} else if c != ' ' {
				s.in = lineTags
			}
		case lineTags:
			if c == ' ' && prev != '\\' {
				s.in = lineKey
			}
		case lineKey:
			if c == '=' && prev != '\\' {
				s.in = lineEquals
			}
		case lineEquals, lineValue:
			switch {
			case c == '"' && s.in == lineEquals:
				s.in = lineQuoted
			case c == ',' || c == ' ':
				s.in = lineKey
			default:
				s.in = lineValue
			}
		case lineQuoted:
			switch c {
			case '\\':
				s.in = lineEscape
			case '"':
				s.in = lineKey
			}
		case lineEscape:
			s.in = lineQuoted
		}
	}
	return 0
}
