package models_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
)

// A model file becomes a header that compiles and passes its own test; an existing file is not
// replaced; the error for a model without export names the reason.
func TestExport(t *testing.T) {
	dir := t.TempDir()
	s, err := reservoir.Bank("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	var series [][]float32
	var labels []string
	for i := range 12 {
		x := make([]float32, 40)
		for k := range x {
			x[k] = float32((k * (1 + i%2)) % 7)
		}
		series, labels = append(series, x), append(labels, []string{"slow", "fast"}[i%2])
	}
	m, err := classify.Train(context.Background(), s, series, labels)
	if err != nil {
		t.Fatal(err)
	}
	model, header := filepath.Join(dir, "pump.safetensors"), filepath.Join(dir, "pump.h")
	if err := m.Save(model); err != nil {
		t.Fatal(err)
	}
	first := clitest.Exec(t, t.Context(), "model", "export", model, "--format", "c", "--output", header, "--name", "pump")
	first.Want(t, cli.ExitOK)
	if !strings.Contains(first.Out, "bytes of constants") {
		t.Errorf("printed %q", first.Out)
	}
	clitest.Exec(t, t.Context(), "model", "export", model, "--format", "c", "--output", header).Want(t, cli.ExitFailure, "was not changed", "--force")
	clitest.Exec(t, t.Context(), "model", "export", model, "--output", header).Want(t, cli.ExitUsage, "--format: want a value")
	clitest.Exec(t, t.Context(), "model", "export", model, "--format", "c", "--output", header, "--force", "--name", "Pump").Want(t, cli.ExitFailure, "lower-case")
	text, err := os.ReadFile(header)
	if err != nil || !strings.Contains(string(text), "pump_push") {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		parts.Absent(t, "gcc", "gcc is not installed")
	}
	main := filepath.Join(dir, "main.c")
	if err := os.WriteFile(main, []byte("#define PUMP_IMPLEMENTATION\n#include \"pump.h\"\nint main(void) { static pump_state s; return pump_selftest(&s); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	if out, err := exec.Command("gcc", "-Wall", "-Wextra", "-Werror", main, "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Errorf("the header's test of itself: %v\n%s", err, out)
	}

	page := filepath.Join(dir, "pump.html")
	clitest.Exec(t, t.Context(), "model", "export", model, "--format", "html", "--output", page).Want(t, cli.ExitOK)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "</html>") || strings.Contains(string(text), "http") && strings.Count(string(text), "http") != strings.Count(string(text), "http://www.w3.org/2000/svg")+strings.Count(string(text), "http-equiv") {
		t.Errorf("the page is not whole, or asks for something elsewhere: %v", err)
	}

	m.Front = &reservoir.Front{Decimate: 2, Fill: []float32{0}}
	if err := m.Save(model); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), "model", "export", model, "--format", "c", "--output", header, "--force").Want(t, cli.ExitFailure, "front end")
}
