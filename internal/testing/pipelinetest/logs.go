package pipelinetest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is far longer than any test needs: only a hang exceeds it.
const Patience = time.Minute

// Log writes warnings and errors to the test's log, which is shown if the test fails.
// Lines written after the end of the test are dropped, because writing them would panic.
func Log(t testing.TB) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(func() { w.mu.Lock(); w.over = true; w.mu.Unlock() })
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct {
	t    testing.TB
	mu   sync.Mutex
	over bool
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Log(strings.TrimRight(string(p), "\n"))
	}
	return len(p), nil
}

// LogBook collects the text of a log, for tests with a count of lines.
type LogBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the text.
func (l *LogBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text so far.
func (l *LogBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Lines returns the number of lines with word.
func (l *LogBook) Lines(word string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// Logger returns a logger that writes to the book, from level Info.
func (l *LogBook) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Until waits until ok returns true.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s within %v", what, Patience)
		}
	}
}

// Mentions fails the test unless err is an error whose text contains all words.
func Mentions(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not mention %q", err, w)
		}
	}
}
