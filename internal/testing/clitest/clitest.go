package clitest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/root"
)

// Lines parses one JSON object per line.
func (r Result) Lines(t *testing.T) []map[string]any {
	t.Helper()
	var all []map[string]any
	for s := bufio.NewScanner(strings.NewReader(r.Out)); s.Scan(); {
		m := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatalf("%v in line %q", err, s.Text())
		}
		all = append(all, m)
	}
	return all
}

// Records requires every line of the messages to be a JSON object, and returns the
// objects.
func (r Result) Records(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(r.ErrOut) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil || one["time"] == nil || one["level"] == nil || one["msg"] == "" {
			t.Errorf("on standard error: %q (%v)", line, err)
		}
		all = append(all, one)
	}
	return all
}

// Result is the result of one run of the program.
type Result struct {
	Code        int
	Out, ErrOut string
}

// A test must not use the server that its user has selected for the nats command.
func init() {
	_ = os.Unsetenv("NATS_URL")
	_ = os.Setenv("XDG_CONFIG_HOME", os.DevNull)
}

// Exec runs the program as main does, in its own directory.
func Exec(t *testing.T, ctx context.Context, args ...string) Result {
	t.Helper()
	var out bytes.Buffer
	var errOut LockedBuffer // the stage logs while a command writes
	code := root.Run(ctx, args, &out, &errOut)
	return Result{code, out.String(), errOut.String()}
}

// Must runs the program and requires exit code 0.
func Must(t *testing.T, args ...string) Result {
	t.Helper()
	r := Exec(t, t.Context(), args...)
	if r.Code != cli.ExitOK {
		t.Fatalf("%v: exit code %d\n%s", args, r.Code, r.ErrOut)
	}
	return r
}

// Want checks the exit code and a part of the messages.
func (r Result) Want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d; messages:\n%s", r.Code, code, r.ErrOut)
	}
	for _, p := range parts {
		if !strings.Contains(r.ErrOut, p) {
			t.Errorf("messages lack %q:\n%s", p, r.ErrOut)
		}
	}
}

// Write writes a file and returns its path.
func Write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Parse decodes the output as one JSON document.
func (r Result) Parse(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Out), v); err != nil {
		t.Fatalf("output is not JSON: %v\n%s", err, r.Out)
	}
}

// Leftovers lists the files in dir except the expected names.
func Leftovers(t *testing.T, dir string, expected ...string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.Contains(strings.Join(expected, "\n")+"\n", e.Name()+"\n") {
			names = append(names, e.Name())
		}
	}
	return names
}

// StopAt cancels a context when Text appears in the written data.
type StopAt struct {
	Text   string
	Cancel context.CancelFunc
	W      io.Writer
	found  bool
}

func (s *StopAt) Write(b []byte) (int, error) {
	if strings.Contains(string(b), s.Text) {
		s.found = true
		s.Cancel()
	}
	return s.W.Write(b)
}

// Read reads a file.
func Read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
