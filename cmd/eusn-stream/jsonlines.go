package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/spf13/pflag"
)

// logAsJSON makes everything on standard error lines of JSON from here on, the
// log and what is said for people: log.format is json. With EUSN_LOG_FORMAT=json
// it is so from the first line.
func (a *app) logAsJSON() {
	if a.records == nil {
		a.records = a.stderr
		a.stderr = &jsonLines{log: slog.New(slog.NewJSONHandler(a.records, nil))}
	}
}

// loadConfig is the function, and takes over the form of messages.
func (a *app) loadConfig(path string, flags *pflag.FlagSet, bind map[string]string) (Config, error) {
	c, err := loadConfig(path, flags, bind)
	if c.Log.Format == formatJSON {
		a.logAsJSON()
	}
	return c, err
}

// format is the log's where no configuration says it.
func (a *app) format() string {
	if a.records != nil {
		return formatJSON
	}
	return formatText
}

// jsonLines makes a record of each line that is written to it.
type jsonLines struct {
	log *slog.Logger
	mu  sync.Mutex
	cut []byte // a line whose end has not come
}

func (j *jsonLines) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	rest := p
	for {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			j.cut = append(j.cut, line...)
			return len(p), nil
		}
		if line = append(j.cut, line...); len(line) > 0 {
			j.log.Info(string(line))
		}
		j.cut, rest = nil, after
	}
}

// tell reports how a command ended: in a line or two for people, or a record.
func (a *app) tell(message, next string, code int) {
	if a.records == nil {
		io.WriteString(a.stderr, "eusn-stream: "+message+"\n")
		if next != "" {
			io.WriteString(a.stderr, "try: "+next+"\n")
		}
		return
	}
	log := slog.New(slog.NewJSONHandler(a.records, nil))
	attrs := []any{"exit_code", code}
	if next != "" {
		attrs = append(attrs, "try", next)
	}
	log.Error(message, attrs...)
}

// asksForJSON reports whether the environment does, before any configuration
// is read.
func asksForJSON() bool { return os.Getenv(envPrefix+"_LOG_FORMAT") == formatJSON }
