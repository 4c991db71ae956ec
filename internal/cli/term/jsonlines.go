package term

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
)

// NewJSONLines writes the records to w.
func NewJSONLines(w io.Writer) *JSONLines {
	return &JSONLines{log: slog.New(slog.NewJSONHandler(w, nil))}
}

// JSONLines makes a record of each line that is written to it.
type JSONLines struct {
	log *slog.Logger
	mu  sync.Mutex
	cut []byte // a line whose end has not come
}

func (j *JSONLines) Write(p []byte) (int, error) {
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
