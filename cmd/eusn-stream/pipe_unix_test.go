//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe in the place of a file is refused by whatever command, but where a
// configuration comes out of it: opening one that nobody writes to would wait,
// and hear no Ctrl-C. So is a folder, but
// where it stands for the files in it.
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
	write(t, filepath.Join(dir, "X_TEST.ts"), "@problemName X\n@classLabel true a b\n@data\n1,2:a\n")
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", importTiny(t, 1), "--out", model, "--members", "1", "--units", "5")
	for _, c := range []struct {
		args string
		code int
	}{
		{"run -c PIPE", exitConfig},
		{"config check PIPE", exitConfig},
		{"run --model PIPE", exitFailure},
		{"model inspect PIPE", exitFailure},
		{"model verify PIPE", exitFailure},
		{"replay --archive PIPE", exitFailure},
		{"state diff PIPE PIPE", exitFailure},
		{"offline import DIR", exitFailure},
		{"offline import --train PIPE --test PIPE", exitFailure},
		{"offline import --csv CSV", exitFailure},
		{"offline embed PIPE", exitFailure},
		{"offline embed DIR", exitFailure},
		{"offline retrain --archive PIPE --out OUT", exitFailure},
		{"offline evaluate --model MODEL --archive PIPE", exitFailure},
		{"offline evaluate --model PIPE --archive PIPE", exitFailure},
		{"offline bench PIPE --out OUT", exitFailure},
		{"offline model PIPE --out OUT", exitFailure},
		{"offline model CSV --out OUT", exitFailure},
		{"offline memory --models eusn --lengths 30 --configurations 1 --draws 1 --resume --out PIPE", exitFailure},
		{"offline figures --only 4 --memory PIPE --out OUT", exitFailure},
		{"offline report PIPE --out OUT", exitFailure},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(strings.NewReplacer("PIPE", pipe, "CSV", csv, "DIR", dir, "OUT", figure, "MODEL", model).Replace(c.args))
			ended := make(chan result, 1)
			go func() { ended <- exec(t, t.Context(), args...) }()
			select {
			case r := <-ended:
				r.want(t, c.code, "is a pipe, want a file", "try:")
			case <-time.After(20 * time.Second):
				t.Fatal("it waits for somebody to write")
			}
		})
	}
	exec(t, t.Context(), "model", "inspect", dir).want(t, exitFailure, dir+" is a folder, want a file")
}

// A configuration may come out of a pipe that something writes into, as a
// shell's <(...) gives it.
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
	exec(t, t.Context(), "config", "check", fmt.Sprintf("/dev/fd/%d", r.Fd())).want(t, exitConfig, "stage.shards", "try:")
}
