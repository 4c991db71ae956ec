package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// numpy finds a Python interpreter that has NumPy.
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

// datasets is the folder of benchmark data, next to the project.
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
