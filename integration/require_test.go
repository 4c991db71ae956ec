package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// absent ends a test whose outside part is missing here: loudly, and as a
// failure where EUSN_REQUIRE names the part (a list as in "numpy,datasets").
func absent(t *testing.T, part, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("EUSN_REQUIRE"), ","), part) {
		t.Fatalf("EUSN_REQUIRE asks for "+part+": "+format, args...)
	}
	t.Skipf("NOT CHECKED, "+part+" absent: "+format, args...)
}

// numpy finds a Python interpreter that has NumPy.
func numpy(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import numpy").Run() == nil {
			return python
		}
	}
	absent(t, "numpy", "no python3 with NumPy (Debian: apt-get install python3-numpy)")
	return ""
}

// datasets is the folder of benchmark data kept beside the project.
func datasets(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../shared/datasets")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		absent(t, "datasets", "no folder ../shared/datasets beside the project")
	}
	return dir
}
