package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// numpy finds a Python interpreter with NumPy.
func numpy(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import numpy").Run() == nil {
			return python
		}
	}
	parts.Absent(t, "numpy", "no python3 with NumPy (Debian: apt-get install python3-numpy)")
	return ""
}

// datasets returns the folder of benchmark data, next to the project.
func datasets(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../shared/datasets")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		parts.Absent(t, "datasets", "no folder ../shared/datasets beside the project")
	}
	return dir
}

// The message of a skipped test contains the words that the README searches for.
func TestSkipsSaySo(t *testing.T) {
	skip := regexp.MustCompile(`\.Skipf?\("([^"]*)`)
	found := 0
	for _, name := range tracked(t, "*_test.go") {
		src, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range skip.FindAllStringSubmatch(string(src), -1) {
			found++
			if !strings.HasPrefix(m[1], "NOT CHECKED") {
				t.Errorf("%s skips with %q: begin with NOT CHECKED", name, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("%d skips found: the test has lost its subject", found)
	}
}
