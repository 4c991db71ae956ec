package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestFaultCases runs scripts that break a job and compare the predictions.
func TestFaultCases(t *testing.T) {
	r := newRig(t, "faults-3")
	r.prepareFaults(t)
	const nothingWrong = "no prediction is wrong or doubled without a flag"
	for i, c := range []struct {
		name, must, script string
		args               []string
		holds              func(out string) bool
	}{
		{"F1 emptied, no numbers", nothingWrong + ", and a line reports the loss", "wipe.sh", []string{"-nonum"},
			func(out string) bool { return noneWrong(out) && strings.Contains(out, "level=") }},
		{"F1 emptied, numbers", nothingWrong + ", and a line reports the loss", "wipe.sh", nil,
			func(out string) bool { return noneWrong(out) && strings.Contains(out, "level=") }},
		{"F2 1,100 partitions", "no partition is stopped, and every prediction is made", "many.sh", []string{"1100"},
			func(out string) bool { return strings.Contains(out, "stopped 0") && lastRight(out) }},
		{"F2 300, crashes", "no partition is stopped for good, and every prediction is made", "permanence.sh", []string{"300"}, lastRight},
		{"F2 300, crash loop", "every prediction is made after six crashes of both workers", "crashloop.sh", []string{"300"}, lastRight},
		{"F1 emptied in a cluster", nothingWrong + ", and a line reports the loss", "cluster.sh", []string{"r1"},
			func(out string) bool { return noneWrong(out) && strings.Contains(out, "level=") }},
		{"F3 damaged outbox", nothingWrong, "gateway2.sh", []string{"corrupt2"}, noneWrong},
	} {
		recordCase(t, c.name, c.must, func(t *testing.T) outcome {
			out := r.runFault(t, portOf(22200+10*i), c.script, c.args...)
			return newOutcome(c.holds(out), "%s", strings.Join(checkLine.FindAllString(out, -1), "; ")+" | "+shorten(out))
		})
	}
}

// checkLine matches the output of the comparison.
var checkLine = regexp.MustCompile(`(OK|BAD|MISSING): want \d+; got \d+: right (\d+), missing (\d+), dup (\d+), wrong-unflagged (\d+), wrong-flagged (\d+)`)

// noneWrong reports whether comparisons ran, and none found a prediction that is wrong
// without a flag, or duplicated.
func noneWrong(out string) bool {
	all := checkLine.FindAllStringSubmatch(out, -1)
	for _, m := range all {
		if m[4] != "0" || m[5] != "0" {
			return false
		}
	}
	return len(all) > 0
}

// lastRight reports whether the last comparison found every prediction.
func lastRight(out string) bool {
	all := checkLine.FindAllStringSubmatch(out, -1)
	return len(all) > 0 && all[len(all)-1][1] == "OK"
}

// prepareFaults builds the programs and the model for the scripts, and computes the
// expected predictions.
func (r *rig) prepareFaults(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"bin", "data"} {
		if err := os.MkdirAll(r.pathOf(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(r.program, r.pathOf("bin/eusn")); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(r.cases, "jt", "*.go"))
	var overlay []string
	for _, f := range files {
		overlay = append(overlay, "cmd/jt/"+filepath.Base(f), f)
	}
	r.build(t, "bin/jt", "./cmd/jt", overlay...)
	r.build(t, "bin/nats-server", "github.com/nats-io/nats-server/v2")
	generate := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(r.pathOf("bin/jt"), append([]string{"gen"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		r.writeFile(t, name+".csv", string(out))
		r.mustRun(t, "offline", "import", "--csv", name+".csv", "--out", name+".parquet")
	}
	generate("training", "-sb", "50", "-kb", "20", "-seed", "2")
	generate("truth", "-sb", "200", "-kb", "60")
	r.mustRun(t, "offline", "retrain", "--archive", "training.parquet", "--bank", "tiny", "--policy", "marked", "--out", "data/m.safetensors")
	r.mustRun(t, "offline", "evaluate", "--model", "data/m.safetensors", "--archive", "truth.parquet", "--predictions", "data/truth-m.parquet")
}

// runFault runs a script, which may use ten ports.
func (r *rig) runFault(t *testing.T, port int, script string, args ...string) string {
	t.Helper()
	for i, a := range map[string]string{"RIG": r.cases, "FAULTS": r.dir, "PORT": strconv.Itoa(port), "T": fmt.Sprint("t", port)} {
		t.Setenv(i, a)
	}
	out, code := r.execute(10*time.Minute, "bash", append([]string{filepath.Join(r.cases, script)}, args...)...)
	t.Logf("code %d\n%s", code, out)
	return out
}
