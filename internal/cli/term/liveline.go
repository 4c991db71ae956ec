package term

import (
	"fmt"
	"io"
	"time"
)

// LiveLine is a status line, redrawn in place on a terminal, otherwise printed at intervals.
type LiveLine struct {
	w     io.Writer
	mode  string // bar, plain or none, as in Progress
	last  time.Time
	drawn bool
}

// NewLiveLine returns a status line on w, in a mode of NewProgress.
func NewLiveLine(w io.Writer, mode string) *LiveLine {
	return &LiveLine{w: w, mode: displayMode(w, mode), last: time.Now()}
}

// Show draws text if the interval has passed or final is set, and reports whether it drew.
func (l *LiveLine) Show(text string, final bool) bool {
	switch {
	case l.mode == "bar":
		fmt.Fprintf(l.w, "\r\x1b[K%s", clean([]byte(text)))
		l.drawn = true
	case l.mode == "plain" && (final || time.Since(l.last) >= 2*time.Second):
		fmt.Fprintf(l.w, "%s\n", clean([]byte(text)))
	default:
		return false
	}
	l.last = time.Now()
	return true
}

// Close leaves the last status on the terminal.
func (l *LiveLine) Close() {
	if l.drawn {
		fmt.Fprintln(l.w)
	}
}
