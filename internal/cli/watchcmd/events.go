package watchcmd

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// events reports progress: sentences on standard error, and with --json lines on standard output.
type events struct {
	app   *cli.App
	begin time.Time
	out   io.Writer
}

// lockedWriter writes whole lines of several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func newEvents(a *cli.App) *events {
	a.Stdout = &lockedWriter{w: a.Stdout}
	return &events{app: a, begin: time.Now(), out: a.Stdout}
}

func (e *events) say(format string, args ...any) { e.app.Say(format, args...) }

// event prints a line of JSON, with --json.
func (e *events) event(name string, fields map[string]any) {
	if !e.app.JSON {
		return
	}
	fields["event"] = name
	fields["seconds"] = time.Since(e.begin).Seconds()
	line, err := json.Marshal(fields)
	if err == nil {
		e.out.Write(append(line, '\n'))
	}
}
