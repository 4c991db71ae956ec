package integration

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// The script of the loop at the end of the tutorial: the second model is correct more
// often than the first, live as offline, and after a rollback the first model predicts.
func TestLoopScript(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT CHECKED: the script takes ten seconds, -short was given")
	}
	bin := filepath.Join(t.TempDir(), "eusn-stream")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/eusn-stream").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command("bash", "../docs/learn-and-promote.sh", bin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	numbers := func(pattern string) (n []int) {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(string(out))
		if m == nil {
			t.Fatalf("it does not say %q:\n%s", pattern, out)
		}
		for _, s := range m[1:] {
			i, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			n = append(n, i)
		}
		return n
	}
	first := numbers(`the first model: (\d+) of 300 right\n`)
	offline := numbers(`tuesday, recording: (\d+) of 300 right`)
	second := numbers(`the second model: (\d+) of 300 right; (\d+) say`)
	back := numbers(`the first model: (\d+) of 300 right; (\d+) say`)
	if second[0] != offline[0] || second[0] <= first[0]+20 || second[0] <= back[0]+20 || second[1] != 300 || back[1] != 0 {
		t.Errorf("right: the first %v, the second %v (offline %v), after the rollback %v:\n%s", first, second, offline, back, out)
	}
}
