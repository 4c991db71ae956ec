//go:build unix

package root_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Every command refuses a pipe instead of a file, except for a configuration: opening a pipe
// without a writer would block and ignore Ctrl-C. A folder is also refused, unless the command
// reads the folder's files.
func TestPipesAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, figure := filepath.Join(dir, "X_TRAIN.ts"), filepath.Join(dir, "out")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	csv := filepath.Join(dir, "pipe.csv")
	if err := syscall.Mkfifo(csv, 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, filepath.Join(dir, "X_TEST.ts"), "@problemName X\n@classLabel true a b\n@data\n1,2:a\n")
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", clitest.ImportTiny(t, 1), "--output", model, "--members", "1", "--units", "5")
	for _, c := range []struct {
		args string
		code int
	}{
		{"run -c PIPE", cli.ExitConfig},
		{"config check PIPE", cli.ExitConfig},
		{"run --model PIPE", cli.ExitFailure},
		{"model show PIPE", cli.ExitFailure},
		{"model verify PIPE", cli.ExitFailure},
		{"replay PIPE", cli.ExitFailure},
		{"state diff PIPE PIPE", cli.ExitFailure},
		{"import DIR", cli.ExitFailure},
		{"import --train PIPE --test PIPE", cli.ExitFailure},
		{"import CSV", cli.ExitFailure},
		{"offline paper embed PIPE", cli.ExitFailure},
		{"offline paper embed DIR", cli.ExitFailure},
		{"train PIPE --output OUT", cli.ExitFailure},
		{"evaluate PIPE --model MODEL", cli.ExitFailure},
		{"evaluate PIPE --model PIPE", cli.ExitFailure},
		{"offline paper tables PIPE --output OUT", cli.ExitFailure},
		{"offline paper memory --models eusn --lengths 30 --configurations 1 --draws 1 --resume --output PIPE", cli.ExitFailure},
		{"offline paper figures --only 4 --memory PIPE --output OUT", cli.ExitFailure},
		{"offline paper report PIPE --output OUT", cli.ExitFailure},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(strings.NewReplacer("PIPE", pipe, "CSV", csv, "DIR", dir, "OUT", figure, "MODEL", model).Replace(c.args))
			ended := make(chan clitest.Result, 1)
			go func() { ended <- clitest.Exec(t, t.Context(), args...) }()
			select {
			case r := <-ended:
				r.Want(t, c.code, "is a pipe, want a file", "try:")
			case <-time.After(pipelinetest.Patience):
				t.Fatal("it waits for somebody to write")
			}
		})
	}
	clitest.Exec(t, t.Context(), "model", "show", dir).Want(t, cli.ExitFailure, dir+" is a folder, want a file")
}

// A configuration may come from a pipe with a writer, such as a shell's <(...).
func TestConfigurationFromPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("stage: {shards: -3}\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	clitest.Exec(t, t.Context(), "config", "check", fmt.Sprintf("/dev/fd/%d", r.Fd())).Want(t, cli.ExitConfig, "stage.shards", "try:")
}
