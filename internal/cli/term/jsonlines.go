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

// JSONLines writes a record for each line written to it.
type JSONLines struct {
	log *slog.Logger
	mu  sync.Mutex
	cut []byte // an unfinished line
}

func (j *JSONLines) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	remainder := p
	for {
		line, after, whole := bytes.Cut(remainder, []byte("\n"))
		if !whole {
			j.cut = append(j.cut, line...)
			return len(p), nil
		}
		if line = append(j.cut, line...); len(line) > 0 {
			j.log.Info(string(line))
		}
		j.cut, remainder = nil, after
	}
}
