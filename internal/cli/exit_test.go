package cli_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A full disk is reported as such, even if a command gives other advice.
func TestFullDisk(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for _, err := range []error{full, fmt.Errorf("bench: %w", full), cli.Fail(cli.ExitFailure, full, "--help")} {
		var errOut bytes.Buffer
		code := (&cli.App{Stderr: &errOut}).Report(err)
		clitest.Result{Code: code, ErrOut: errOut.String()}.Want(t, cli.ExitFailure, "try: free some space on that disk, or write to another disk\n")
		if strings.Contains(errOut.String(), "--help") {
			t.Errorf("%v: two advices:\n%s", err, errOut.String())
		}
	}
}

// Text that is printed to be pasted has the same meaning in a shell, and is no flag.
func TestQuoteForShell(t *testing.T) {
	for s, want := range map[string]string{"a/b.c": "a/b.c", "a b": "'a b'", "it's": `'it'\''s'`, "-r": "./-r", "-a b": "'./-a b'", "": "''"} {
		if got := cli.QuoteForShell(s); got != want {
			t.Errorf("%q becomes %s, want %s", s, got, want)
		}
	}
}
