package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutsideModule compiles a program of another module, which sees only public packages.
func TestOutsideModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"../go.mod": "go.mod", "../go.sum": "go.sum", "testdata/outside/main.go": "main.go"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if to == "go.mod" {
			name := strings.TrimSuffix(module, "/")
			text = []byte(strings.Replace(string(text), "module "+name, "module example.com/outside", 1) +
				"\nrequire " + name + " v0.0.0\n\nreplace " + name + " => " + root + "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "vet", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a module outside cannot use the public packages: %v\n%s", err, out)
	}
}
