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

// Cleaned is standard output or error without the control and format characters in data:
// keys, labels, headers, file names and the errors that quote them may hold
// escape sequences, which would control the terminal. Line ends and tabs pass.
// Every other one becomes \u and its number, which in JSON is the same character.
// Output that controls the terminal on purpose, a bar of progress, goes to the
// writer below: see app.screen.
type Cleaned struct{ io.Writer }

func (c Cleaned) Write(p []byte) (int, error) {
	if _, err := c.Writer.Write(clean(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hidden reports whether a character controls the terminal or is not seen: two names that differ
// in such characters alone look the same.
func hidden(r rune) bool { return names.IsControl(r) || unicode.Is(unicode.Cf, r) }

// clean is p itself where it holds nothing to take out.
func clean(p []byte) []byte {
	isControl := func(r rune) bool { return r != '\n' && r != '\t' && (hidden(r) || r == utf8.RuneError) }
	if bytes.IndexFunc(p, isControl) < 0 {
		return p
	}
	var out []byte
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case !utf8.FullRune(p): // the next write has the rest
			return append(out, p...)
		case r == utf8.RuneError && n == 1: // no UTF-8: some terminals take such a byte for a control
			out = utf8.AppendRune(out, utf8.RuneError)
		case r != utf8.RuneError && isControl(r):
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		default:
			out = append(out, p[:n]...)
		}
		p = p[n:]
	}
	return out
}
