package term

import (
	"bytes"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen redraws a whole terminal. Control characters in the drawn text are shown as text.
type Screen struct{ f *os.File }

// OpenScreen opens the terminal of w; nil if w cannot be redrawn.
func OpenScreen(w io.Writer) *Screen {
	if !isTerminal(w) {
		return nil
	}
	s := &Screen{w.(*os.File)}
	_, _ = io.WriteString(s.f, "\x1b[?1049h\x1b[?25l") // another page, no cursor: the previous content returns at the end
	return s
}

// Size returns the numbers of columns and lines.
func (s *Screen) Size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(s.f.Fd()))
	if err != nil || columns < 1 || lines < 1 {
		return 80, 24
	}
	return columns, lines
}

// Draw shows lines of text, as far as they fit.
func (s *Screen) Draw(text []string) error {
	columns, lines := s.Size()
	_, err := s.f.Write(drawLines(text, columns, lines))
	return err
}

// drawLines returns the bytes that draw these lines on a terminal of a size.
func drawLines(text []string, columns, lines int) []byte {
	var b bytes.Buffer
	b.WriteString("\x1b[H")
	for i, line := range text[:min(len(text), lines)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.Write(cutTo(clean([]byte(line)), columns))
		b.WriteString("\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.Bytes()
}

// cutTo cuts a line to a maximum number of characters. Line ends become blanks.
func cutTo(line []byte, columns int) []byte {
	line = bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, line)
	if utf8.RuneCount(line) <= columns {
		return line
	}
	n := 0
	for range columns - 1 {
		_, size := utf8.DecodeRune(line[n:])
		n += size
	}
	return append(line[:n:n], "…"...)
}

// Close restores the previous content of the terminal.
func (s *Screen) Close() { _, _ = io.WriteString(s.f, "\x1b[?25h\x1b[?1049l") }
