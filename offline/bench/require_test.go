package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// absent skips a test that needs something this machine lacks, loudly, and
// fails where EUSN_REQUIRE names the part.
func absent(t testing.TB, part, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("EUSN_REQUIRE"), ","), part) {
		t.Fatalf("EUSN_REQUIRE names %s, but: %s", part, why)
	}
	t.Skipf("SKIPPED: %s is absent: %s", part, why)
}

// shared gives the path of a file beside the checkout.
func shared(t testing.TB, path ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{"..", "..", "..", "shared"}, path...)...)
	if _, err := os.Stat(p); err != nil {
		absent(t, "datasets", err.Error())
	}
	return p
}

// sklearn gives a Python with scikit-learn.
func sklearn(t testing.TB) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import sklearn").Run() == nil {
			return python
		}
	}
	absent(t, "sklearn", "no python3 with scikit-learn (Debian: apt-get install python3-sklearn)")
	return ""
}
