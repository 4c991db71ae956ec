package formats

// LineScanner finds the ends of lines of line protocol in a stream of bytes, however it
// is cut. A line feed in a quoted field value ends no line. Where a line is no valid line
// protocol, what could be a quoted value counts as one: what a device quotes never
// becomes a line of its own. The zero value is at the beginning of a line.
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
	lineKey                      // of a field; also the time, and what else follows a value
	lineEquals                   // after the = of a field
	lineValue                    // of a field, without quotes
	lineQuoted                   // of a field, in quotes
	lineEscape                   // after \ in quotes
)

// End reads b up to the end of the line, and returns how many bytes that are; 0: b has no
// end of the line, and the scanner has read all of it.
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
