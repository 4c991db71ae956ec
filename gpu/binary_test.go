//go:build linux && cgo

package gpu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eusn-stream/eusn-stream/gpu/internal/testing/cudatest"
)

// command is the program under test. It must start on every machine.
const command = "github.com/eusn-stream/eusn-stream/cmd/eusn-stream"

func build(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT CHECKED: builds the program, which takes a minute")
	}
	out := filepath.Join(dir, "eusn-stream")
	cmd := exec.Command("go", append(append([]string{"build", "-o", out}, flags...), command)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return out
}

// plain holds the program linked as users build it, once, by the first test.
var plain struct {
	sync.Mutex
	dir, program string
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(plain.dir)
	os.Exit(code)
}

func buildPlain(t *testing.T) string {
	t.Helper()
	plain.Lock()
	defer plain.Unlock()
	if plain.program == "" {
		dir, err := os.MkdirTemp("", "eusn-gpu")
		if err != nil {
			t.Fatal(err)
		}
		plain.dir = dir
		plain.program = build(t, dir)
	}
	return plain.program
}

// runProgram runs the program and returns its exit code and output.
func runProgram(t *testing.T, program string, environment []string, args ...string) (code int, text string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), environment...), t.TempDir()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestProgramStartsWithoutDriver: a program that resolves every symbol at its start,
// by the environment or by its linker, starts on a machine without a driver, and
// --engine gpu prints the reason. (make dist-check tests the shipped program, built
// without cgo.)
func TestProgramStartsWithoutDriver(t *testing.T) {
	if _, err := Devices(); err == nil {
		t.Skip("NOT CHECKED: this machine has a GPU")
	}
	program := buildPlain(t)
	for _, c := range []struct {
		name, program string
		environment   []string
		want          string
	}{
		{"plain", program, nil, "no NVIDIA driver was found"},
		{"LD_BIND_NOW", program, []string{"LD_BIND_NOW=1"}, "no NVIDIA driver was found"},
		{"linked with -z now", build(t, t.TempDir(), "-ldflags=-s -w -extldflags=-Wl,-z,now -linkmode=external"), nil, "no NVIDIA driver was found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, text := runProgram(t, c.program, c.environment, "version"); code != 0 {
				t.Errorf("version ends with %d:\n%s", code, text)
			}
			code, text := runProgram(t, c.program, c.environment, "run", "--engine", "gpu")
			if lines := strings.Split(strings.TrimSpace(text), "\n"); code != 4 || !strings.Contains(lines[0], c.want) || len(lines) != 2 {
				t.Errorf("run --engine gpu ends with %d, want 4, a sentence with %q and what to try:\n%s", code, c.want, text)
			}
		})
	}
}

// TestProgramWithFakeDriver tests messages about unusable drivers and devices.
// The fake driver has the path of the real driver.
func TestProgramWithFakeDriver(t *testing.T) {
	program := buildPlain(t)
	dir := t.TempDir()
	if _, err := cudatest.Build(dir); err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"devices=0":    "no usable NVIDIA GPU was found",
		"driver=10020": "too old: install version 450 or newer (it offers CUDA 10.2, want 11.0)",
		"major=7":      "Fake GPU 0 has compute capability 7.0, want 8.0 or newer",
		"fail_init=34": "no NVIDIA driver was found", // a stub library
	} {
		environment := []string{"LD_LIBRARY_PATH=" + dir, "EUSN_FAKE=" + settings}
		if code, text := runProgram(t, program, environment, "demo", "--engine", "gpu"); code != 4 || !strings.Contains(text, want) {
			t.Errorf("%s: demo --engine gpu ends with %d, want 4 and %q:\n%s", settings, code, want, text)
		}
		if code, text := runProgram(t, program, environment, "doctor"); code != 0 || !strings.Contains(text, want) {
			t.Errorf("%s: doctor ends with %d, want 0 and %q:\n%s", settings, code, want, text)
		}
	}
	if code, text := runProgram(t, program, []string{"LD_LIBRARY_PATH=" + dir}, "doctor"); code != 0 || !strings.Contains(text, "ok       gpu       Fake GPU 0, 1 GiB, compute capability 9.0; the driver offers CUDA 12.4.") {
		t.Errorf("doctor with a GPU ends with %d:\n%s", code, text)
	}
	// A driver that refuses the kernels gives no engine, but no crash either.
	if code, text := runProgram(t, program, []string{"LD_LIBRARY_PATH=" + dir}, "bench", "--engine", "gpu", "--only", "engine"); code != 1 || !strings.Contains(text, "load kernels") {
		t.Errorf("bench on a driver that refuses the kernels ends with %d:\n%s", code, text)
	}
}
