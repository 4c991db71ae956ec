package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestPeers runs each available peer of tools/peers: its result is compared with float64,
// followed by a little work, so that speed comparisons use correct computations.
func TestPeers(t *testing.T) {
	t.Parallel()
	python := numpy(t)
	work := func(t *testing.T, command string, args ...string) {
		t.Helper()
		cmd := exec.Command(command, args...)
		cmd.Stdin = strings.NewReader("0.001\n")
		var messages strings.Builder
		cmd.Stderr = &messages
		out, err := cmd.Output()
		first, rate, _ := strings.Cut(string(out), "\n")
		if err != nil || !strings.HasPrefix(first, "ready") || len(strings.TrimSpace(rate)) == 0 {
			t.Fatalf("%v: printed %q\n%s", err, out, messages.String())
		}
		t.Log(first)
	}
	shape := func(members string) []string { return []string{members, "20", "3", "40", "10"} }
	for _, name := range []string{"numpy", "sgemm"} {
		t.Run(name, func(t *testing.T) {
			work(t, python, append([]string{"../tools/peers/forms.py", name}, shape("0")...)...)
		})
	}
	t.Run("numpy-bank", func(t *testing.T) {
		work(t, python, append([]string{"../tools/peers/forms.py", "numpy-bank"}, shape("3")...)...)
	})
	// The peer compares its features of bank standard with those of our engine.
	standard := func(t *testing.T, name string) {
		t.Helper()
		program := filepath.Join(t.TempDir(), "recipe")
		if out, err := exec.Command("go", "build", "-o", program, "../tools/peers/recipe").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		work(t, python, "../tools/peers/forms.py", name, "120", "16", "4", "5", "3", program)
	}
	t.Run("numpy-mixed", func(t *testing.T) { standard(t, "numpy-mixed") })
	// A bank for a GPU, on the CPU: the peer itself compares with float64.
	bank := func(t *testing.T, name string) {
		t.Helper()
		out, err := exec.Command(python, "../tools/peers/gpu_peers.py", "--ours", "none", "--one", name, "--device", "cpu", "--seconds", "0.001", "--shapes", "20x4x70x9x3").CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"relative_error": `) {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s: %s", name, out)
	}
	t.Run("gpu-bank", func(t *testing.T) { bank(t, "numpy") })
	t.Run("torch", func(t *testing.T) {
		if exec.Command(python, "-c", "import torch").Run() != nil {
			parts.Absent(t, "torch", "%s has no PyTorch (Debian: apt-get install python3-torch)", python)
		}
		work(t, python, append([]string{"../tools/peers/forms.py", "torch"}, shape("0")...)...)
		bank(t, "torch-eager")
		standard(t, "torch-mixed")
	})
	t.Run("reservoirpy", func(t *testing.T) {
		if os.Getenv("RESERVOIRPY") == "" {
			parts.Absent(t, "reservoirpy", "RESERVOIRPY does not name the folder of its package")
		}
		work(t, python, append([]string{"../tools/peers/forms.py", "reservoirpy"}, shape("0")...)...)
	})
	t.Run("gonum", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "gonum")
		if out, err := exec.Command("go", "build", "-o", program, "../tools/peers/gonum").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		work(t, program, "20", "3", "40", "10")
	})
}
