package paper

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// shared returns the path of a file next to the checkout.
func shared(t testing.TB, path ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{"..", "..", "..", "shared"}, path...)...)
	if _, err := os.Stat(p); err != nil {
		parts.Absent(t, "datasets", "%v", err)
	}
	return p
}

// sklearn returns a Python with scikit-learn.
func sklearn(t testing.TB) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import sklearn").Run() == nil {
			return python
		}
	}
	parts.Absent(t, "sklearn", "no python3 with scikit-learn (Debian: apt-get install python3-sklearn)")
	return ""
}
