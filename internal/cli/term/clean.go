package term

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Cleaned is standard output or error without the control and format characters in data: keys,
// labels, headers, file names and errors with such texts may contain escape sequences, which
// would control the terminal. Line ends and tabs pass. Every other such character becomes \u
// and its number, which is the same character in JSON. Intended terminal control, such as a
// progress bar, uses the underlying writer: see app.screen.
type Cleaned struct{ io.Writer }

func (c Cleaned) Write(p []byte) (int, error) {
	if _, err := c.Writer.Write(clean(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isHidden reports whether a character controls the terminal or is invisible: names that differ
// only in such characters look the same.
func isHidden(r rune) bool { return names.IsControl(r) || unicode.Is(unicode.Cf, r) }

// clean returns p unchanged if there is nothing to remove.
func clean(p []byte) []byte {
	isControl := func(r rune) bool { return r != '\n' && r != '\t' && (isHidden(r) || r == utf8.RuneError) }
	if bytes.IndexFunc(p, isControl) < 0 {
		return p
	}
	var result []byte
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case !utf8.FullRune(p): // the next write has the rest
			return append(result, p...)
		case r == utf8.RuneError && n == 1: // invalid UTF-8: some terminals treat such a byte as a control character
			result = utf8.AppendRune(result, utf8.RuneError)
		case r != utf8.RuneError && isControl(r):
			for _, unit := range utf16.Encode([]rune{r}) {
				result = fmt.Appendf(result, `\u%04x`, unit)
			}
		default:
			result = append(result, p[:n]...)
		}
		p = p[n:]
	}
	return result
}
