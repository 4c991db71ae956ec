package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/durable"
)

// MayWrite refuses to replace an existing file, unless forced; an input is never replaced.
func MayWrite(path string, force bool, inputs ...string) error {
	if path == "" || force {
		return OutputFile(path, inputs...)
	}
	if _, err := os.Lstat(path); err == nil {
		return Fail(ExitFailure, fmt.Errorf("%s exists and was not changed", path), "choose another name, or add --force to replace it")
	}
	return OutputFile(path, inputs...)
}

// QuoteForShell quotes a path if a shell would split or lose the path, and keeps a path from being taken for a flag.
func QuoteForShell(s string) string {
	if strings.HasPrefix(s, "-") {
		s = "./" + s
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\n'\"\\$`*?[]{}()<>|&;!#~", r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// OutputFile refuses, before any work is done, a path that could not be written at its end, or whose file is
// something other than an older output: a folder, a device, or one of the command's own inputs. Files are put in
// their place by renaming, so even /dev/null would be replaced. An empty path passes.
func OutputFile(path string, inputs ...string) error {
	if path == "" {
		return nil
	}
	dir := filepath.Dir(path)
	probe, err := os.CreateTemp(dir, ".eusn-probe-*")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Fail(ExitFailure, fmt.Errorf("%s cannot be written: folder %s does not exist", path, dir), "mkdir -p "+QuoteForShell(dir))
	case err != nil:
		return Fail(ExitFailure, fmt.Errorf("%s cannot be written: %w", path, err), "choose another path")
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if !there.Mode().IsRegular() {
		return Fail(ExitFailure, fmt.Errorf("%s is not a regular file and was not changed", path), "choose another name")
	}
	for _, in := range inputs {
		if from, err := os.Stat(in); err == nil && os.SameFile(there, from) {
			return Fail(ExitFailure, fmt.Errorf("%s is an input of this command: writing to it would destroy it", path), "choose another name")
		}
	}
	return nil
}

// WholeFile is NotWhole for the inputs of a command.
func WholeFile(path string) error {
	return Fail(ExitFailure, NotWhole(path), "save its content in a file, and give that file")
}

// NotWhole refuses paths that a command cannot read whole and more than once: a folder, a device, a pipe. (Opening a
// pipe waits for a writer and ignores Ctrl-C.) A missing file passes: opening the file gives the error.
func NotWhole(path string) error {
	there, err := os.Stat(path)
	if err != nil || there.Mode().IsRegular() {
		return nil
	}
	what := "not a regular file"
	switch mode := there.Mode(); {
	case mode.IsDir():
		what = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return fmt.Errorf("%s is %s, want a file", path, what)
}

// Results is standard output that keeps the first error, for tables printed line by line without error checks.
type Results struct {
	io.Writer
	Err error
}

func (r *Results) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	if err == nil {
		return n, nil
	}
	if r.Err == nil {
		r.Err = fmt.Errorf("results could not be written: %w", err)
	}
	return n, r.Err
}

// Modes of files: results and models are for all users, files with samples of streams only for their owner.
const (
	Public  fs.FileMode = 0o644
	Private fs.FileMode = 0o600
)

// ReplaceFile writes a file, whole or not at all.
func ReplaceFile(path string, data []byte, mode fs.FileMode) error {
	return durable.Write(path, data, mode)
}
