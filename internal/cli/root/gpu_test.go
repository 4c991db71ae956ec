package root_test

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// Every computing command reports a missing GPU in one sentence before any work.
func TestNoGPU(t *testing.T) {
	if list, err := gpu.Devices(); err == nil {
		t.Skipf("NOT CHECKED: this machine has %s", list[0].Name)
	}
	for _, args := range [][]string{
		{"run", "--model", "none.safetensors"}, {"demo"}, {"train", "x"}, {"evaluate", "x"}, {"bench"},
	} {
		for _, kind := range []string{"gpu", "gpu-3xtf32", "gpu-2xtf32"} {
			r := clitest.Exec(t, t.Context(), append(args, "--engine", kind)...)
			r.Want(t, cli.ExitUnreachable, "eusn-stream: no NVIDIA driver was found", "try: --engine auto")
			if n := strings.Count(r.ErrOut, "\n"); n != 2 || r.Out != "" {
				t.Errorf("%v: %d lines of errors, want a sentence and what to try; printed %q:\n%s", args, n, r.Out, r.ErrOut)
			}
		}
	}
}
