package main

import (
	"fmt"
	"io"
	"time"
)

// liveLine is a status that is redrawn in place on a terminal and printed now
// and then elsewhere.
type liveLine struct {
	w     io.Writer
	mode  string // bar, plain, none; as progress
	last  time.Time
	drawn bool
}

func (a *app) newLiveLine() *liveLine {
	return &liveLine{w: a.screen(), mode: a.progress().mode, last: time.Now()}
}

// show draws text if it is time to, always where final is set, and reports
// whether it did.
func (l *liveLine) show(text string, final bool) bool {
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

// close leaves the last status standing.
func (l *liveLine) close() {
	if l.drawn {
		fmt.Fprintln(l.w)
	}
}
