package term

import (
	"bytes"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen redraws a whole terminal. What is drawn controls nothing: control characters
// in it are shown as text.
type Screen struct{ f *os.File }

// OpenScreen is a terminal that w writes to; nil where w is none that can be redrawn.
func OpenScreen(w io.Writer) *Screen {
	if !isTerminal(w) {
		return nil
	}
	s := &Screen{w.(*os.File)}
	_, _ = io.WriteString(s.f, "\x1b[?1049h\x1b[?25l") // another page, no cursor: what stood there comes back at the end
	return s
}

// Size is how many columns and lines there are.
func (s *Screen) Size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(s.f.Fd()))
	if err != nil || columns < 1 || lines < 1 {
		return 80, 24
	}
	return columns, lines
}

// Draw shows lines of text, as many and as much of each as there is room for.
func (s *Screen) Draw(text []string) error {
	columns, lines := s.Size()
	_, err := s.f.Write(drawn(text, columns, lines))
	return err
}

// drawn is what makes a terminal of a size show these lines.
func drawn(text []string, columns, lines int) []byte {
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

// cutTo is a line of at most so many characters. Line ends are blanks in it.
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

// Close brings back what stood on the terminal.
func (s *Screen) Close() { _, _ = io.WriteString(s.f, "\x1b[?25h\x1b[?1049l") }
