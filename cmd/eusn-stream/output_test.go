package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInputsAreNeverOverwritten gives inputs as outputs, under their own and
// another name, and wants them untouched.
func TestInputsAreNeverOverwritten(t *testing.T) {
	archive, dir := importTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	must(t, "offline", "retrain", "--archive", archive, "--members", "1", "--out", model)
	link := filepath.Join(dir, "link.parquet")
	if err := os.Symlink(archive, link); err != nil {
		t.Fatal(err)
	}
	csv := write(t, filepath.Join(dir, "r.csv"), "stream,a\ns,1\n")
	ts := write(t, filepath.Join(t.TempDir(), "X_TRAIN.ts"), "@classLabel true a\n@data\n1:a\n")
	before := map[string][]byte{archive: nil, model: nil, csv: nil, ts: nil}
	for path := range before {
		before[path] = read(t, path)
	}
	const says = "is what is being read"
	for _, args := range [][]string{
		{"offline", "retrain", "--archive", archive, "--out", archive},
		{"offline", "retrain", "--archive", archive, "--out", link},
		{"offline", "evaluate", "--archive", archive, "--model", model, "--predictions", archive},
		{"offline", "evaluate", "--archive", archive, "--model", model, "--predictions", model},
		{"offline", "import", "--csv", csv, "--out", csv, "--force"},
		{"offline", "import", filepath.Dir(ts), "--out", ts, "--force"},
		{"offline", "import", "--train", ts, "--out", ts, "--force"},
	} {
		exec(t, t.Context(), args...).want(t, exitFailure, says)
	}
	for path, content := range before {
		if !bytes.Equal(content, read(t, path)) {
			t.Errorf("%s has changed", path)
		}
	}
	// What a wrong file is answered with must not be a command that destroys it.
	if r := exec(t, t.Context(), "model", "inspect", archive); strings.Contains(r.errOut, "--out") {
		t.Errorf("a wrong file named as output:\n%s", r.errOut)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestOutputsAreCheckedBeforeTheWork wants refusals that come before any
// result, and nothing left behind.
func TestOutputsAreCheckedBeforeTheWork(t *testing.T) {
	archive, dir := importTiny(t, 1), t.TempDir()
	for out, says := range map[string]string{
		filepath.Join(dir, "none", "m.safetensors"): "there is no folder",
		dir:        "no regular file",
		os.DevNull: "no regular file",
	} {
		r := exec(t, t.Context(), "offline", "retrain", "--archive", archive, "--out", out)
		r.want(t, exitFailure, says)
		if r.out != "" {
			t.Errorf("--out %s: refused after the work:\n%s", out, r.out)
		}
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A full disk is told from other failures, whatever else a command advises.
func TestFullDisk(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for _, err := range []error{full, fmt.Errorf("bench: %w", full), fail(exitFailure, full, "--help")} {
		var errOut bytes.Buffer
		code := (&app{stderr: &errOut}).report(err)
		result{code: code, errOut: errOut.String()}.want(t, exitFailure, "try: more room on that disk, or another place for the file\n")
		if strings.Contains(errOut.String(), "--help") {
			t.Errorf("%v: two advices:\n%s", err, errOut.String())
		}
	}
}

// What is printed to be pasted means the same to a shell, and is no flag.
func TestQuoteForShell(t *testing.T) {
	for s, want := range map[string]string{"a/b.c": "a/b.c", "a b": "'a b'", "it's": `'it'\''s'`, "-r": "./-r", "-a b": "'./-a b'", "": "''"} {
		if got := quoteForShell(s); got != want {
			t.Errorf("%q becomes %s, want %s", s, got, want)
		}
	}
}

// brokenWriter takes nothing, as a full disk does.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestLostResultsAreAFailure: a table that could not be written is no success.
func TestLostResultsAreAFailure(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"doctor"}, {"help"}, {"completion", "bash"}} {
		var errOut bytes.Buffer
		if code := run(t.Context(), args, brokenWriter{}, &errOut); code != exitFailure {
			t.Errorf("%v: exit code %d, want %d", args, code, exitFailure)
		}
		if got := errOut.String(); strings.Count(got, "results could not be written: disk full") != 1 {
			t.Errorf("%v: messages %q, want the reason once", args, got)
		}
	}
}

// TestStopWithoutCommitIsAFailure: a stage that could not commit its last
// batch did not stop well, and that nobody published anything is not true.
func TestStopWithoutCommitIsAFailure(t *testing.T) {
	var errOut bytes.Buffer
	a := &app{stderr: &errOut}
	code := a.report(stopFailure(fmt.Errorf("commit on eusn.out.3: %w", context.Canceled), 10*time.Second))
	result{code: code, errOut: errOut.String()}.want(t, exitFailure, "could not be committed within 10s", "eusn.out.3", "try:")
	other := errors.New("other")
	if got := stopFailure(other, time.Second); got != other {
		t.Errorf("another error became %v", got)
	}
}
