package root_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// TestInputsAreNeverOverwritten uses inputs as outputs, under the same and another name, and
// checks for unchanged inputs.
func TestInputsAreNeverOverwritten(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--members", "1", "--output", model)
	link := filepath.Join(dir, "link.parquet")
	if err := os.Symlink(archive, link); err != nil {
		t.Fatal(err)
	}
	csv := clitest.Write(t, filepath.Join(dir, "r.csv"), "stream,a\ns,1\n")
	ts := clitest.Write(t, filepath.Join(t.TempDir(), "X_TRAIN.ts"), "@classLabel true a\n@data\n1:a\n")
	before := map[string][]byte{archive: nil, model: nil, csv: nil, ts: nil}
	for path := range before {
		before[path] = clitest.Read(t, path)
	}
	const says = "is an input of this command"
	for _, args := range [][]string{
		{"train", archive, "--output", archive},
		{"train", archive, "--output", link},
		{"evaluate", archive, "--model", model, "--predictions", archive},
		{"evaluate", archive, "--model", model, "--predictions", model},
		{"import", csv, "--output", csv, "--force"},
		{"import", filepath.Dir(ts), "--output", ts, "--force"},
		{"import", "--train", ts, "--output", ts, "--force"},
	} {
		clitest.Exec(t, t.Context(), args...).Want(t, cli.ExitFailure, says)
	}
	for path, content := range before {
		if !bytes.Equal(content, clitest.Read(t, path)) {
			t.Errorf("%s has changed", path)
		}
	}
	// The advice about a wrong file must not be a command that destroys the file.
	if r := clitest.Exec(t, t.Context(), "model", "show", archive); strings.Contains(r.ErrOut, "--output") {
		t.Errorf("a wrong file named as output:\n%s", r.ErrOut)
	}
}

// TestOutputsAreCheckedBeforeTheWork checks for refusals before any result, without remains.
func TestOutputsAreCheckedBeforeTheWork(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	for out, says := range map[string]string{
		filepath.Join(dir, "none", "m.safetensors"): "does not exist",
		dir:        "not a regular file",
		os.DevNull: "not a regular file",
	} {
		r := clitest.Exec(t, t.Context(), "train", archive, "--output", out)
		r.Want(t, cli.ExitFailure, says)
		if r.Out != "" {
			t.Errorf("--output %s: refused after the work:\n%s", out, r.Out)
		}
	}
	if left := clitest.Leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// brokenWriter fails every write, like a full disk.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestLostResultsAreAFailure checks that an unwritten table is a failure.
func TestLostResultsAreAFailure(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"doctor"}, {"help"}, {"completion", "bash"}} {
		var errOut bytes.Buffer
		if code := root.Run(t.Context(), args, brokenWriter{}, &errOut); code != cli.ExitFailure {
			t.Errorf("%v: exit code %d, want %d", args, code, cli.ExitFailure)
		}
		if got := errOut.String(); strings.Count(got, "results could not be written: disk full") != 1 {
			t.Errorf("%v: messages %q, want the reason once", args, got)
		}
	}
}
