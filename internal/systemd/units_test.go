package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

const units = "../../configs/systemd"

// systemd parses the units, and rates the exposure of a program in their sandbox: at most 2.0
// on its scale from 0 to 10.
func TestUnits(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(units, "*.service"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no units in %s (%v)", units, err)
	}
	var sandbox string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, own, found := strings.Cut(string(text), "\nCapabilityBoundingSet=")
		if !found || sandbox != "" && own != sandbox {
			t.Errorf("%s has another sandbox than %s", file, files[0])
		}
		sandbox = own
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		parts.Absent(t, "systemd", "%v (Debian: apt-get install systemd)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// The program is not installed on test machines.
		here := filepath.Join(t.TempDir(), filepath.Base(file))
		if err := os.WriteFile(here, []byte(strings.Replace(string(text), "/usr/bin/eusn-stream", "/bin/true", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"verify", "--man=no", here}, {"security", "--offline=yes", "--no-pager", "--threshold=20", file}} {
			output, err := exec.Command(analyze, args...).CombinedOutput()
			if err != nil || args[0] == "verify" && strings.Contains(string(output), filepath.Base(file)) {
				t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, output)
			}
		}
	}
}
