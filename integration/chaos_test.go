package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestChaos runs the short matrix of the fault harness, a separate program (see
// integration/chaos/README.md). A failed run prints the command to repeat it.
func TestChaos(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		parts.Absent(t, "chaos", "the fault harness needs Linux (stopped processes, process groups)")
	}
	if testing.Short() {
		t.Skip("NOT CHECKED: the fault harness takes minutes, -short was given")
	}
	bin := filepath.Join(t.TempDir(), "chaos")
	if out, err := exec.Command("go", "build", "-o", bin, "./chaos").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin, "--matrix", "short", "--json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	t.Logf("%s%s", out, stderr.Bytes())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	runs, predictions := 0, 0
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var r struct {
			Run                     string
			OK                      bool
			Control, Repeat, Dir    string
			Why                     []string
			Predictions, Runs       int
			Lost, Duplicated, Wrong int
		}
		if err := d.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Run == "": // the totals
			if r.Runs != runs || r.Predictions != predictions || r.Lost+r.Duplicated+r.Wrong > 0 {
				t.Errorf("totals %+v of %d runs with %d predictions", r, runs, predictions)
			}
		case r.Control == "":
			runs, predictions = runs+1, predictions+r.Predictions
			fallthrough
		default:
			if !r.OK {
				t.Errorf("%s: %v; again: %s; kept in %s", r.Run, r.Why, r.Repeat, r.Dir)
			}
		}
	}
	if err != nil || runs < 1 || predictions < 10_000 {
		t.Errorf("chaos: %v after %d runs with %d predictions, want at least 1 and 10,000", err, runs, predictions)
	}
}
