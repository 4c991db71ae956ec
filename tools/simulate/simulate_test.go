package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOverlay writes the overlay from the installed toolchain, and lets go vet compile the
// harness with its tags. Another version of Go may have other texts: then the edits must
// change.
func TestOverlay(t *testing.T) {
	dir := t.TempDir()
	more := filepath.Join(dir, "more.go")
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := writeOverlay(dir, path, map[string]string{"/old.go": more}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatal(err)
	}
	if n, want := len(overlay.Replace), len(edits)+1; n != want || overlay.Replace["/old.go"] != more {
		t.Errorf("the overlay replaces %d files, want %d: %v", n, want, overlay.Replace)
	}
	for from, to := range overlay.Replace {
		if from == "/old.go" {
			continue
		}
		before, err1 := os.ReadFile(from)
		after, err2 := os.ReadFile(to)
		if err1 != nil || err2 != nil || string(before) == string(after) {
			t.Errorf("%s is not changed: %v %v", from, err1, err2)
		}
	}
	if _, err := applyEdits("runtime/proc.go", "package runtime\n"); err == nil || !strings.Contains(err.Error(), "runtime/proc.go") || !strings.Contains(err.Error(), "this version of Go") {
		t.Errorf("a file without the text: %v", err)
	}
	if out, err := exec.Command("go", "vet", "-tags", "simulation,chaos", "../../integration/chaos").CombinedOutput(); err != nil {
		t.Errorf("go vet with the tags of the simulation: %v\n%s", err, out)
	}
}

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string][2]uint64{"7": {7, 7}, "1-20": {1, 20}, "5-5": {5, 5}} {
		if from, to, err := parseSeeds(text); err != nil || from != want[0] || to != want[1] {
			t.Errorf("%s: %d to %d, %v", text, from, to, err)
		}
	}
	for _, text := range []string{"", "a", "3-", "20-1", "1-2-3", "-5"} {
		if _, _, err := parseSeeds(text); err == nil || !strings.Contains(err.Error(), "such as 1-1000") {
			t.Errorf("%q: %v, want an error with the form", text, err)
		}
	}
}

// TestSummary counts faults, their pairs, failures and differing traces.
func TestSummary(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	s.addHistory(history{Seed: 1, Trace: "a", Predictions: 3, Faults: map[string]int{"kill": 2, "cut": 1, "slow": 1}}, false, false)
	s.addHistory(history{Seed: 2, Trace: "b", Predictions: 4, Faults: map[string]int{"kill": 1, "cut": 5}, CPU: 1.5}, false, false)
	if s.failed() || s.Histories != 2 || s.Predictions != 7 || s.Faults["cut"] != 6 || s.Pairs["cut + kill"] != 2 || s.Pairs["kill + slow"] != 1 || s.usedCPU() != 1500*time.Millisecond {
		t.Errorf("two good histories: %+v", s)
	}
	s.addHistory(history{Seed: 1, Trace: "a"}, true, false)
	if s.failed() || s.Compared != 1 || s.Histories != 2 {
		t.Errorf("the same trace again: %+v", s)
	}
	s.addHistory(history{Seed: 2, Trace: "c"}, true, false)
	if !s.failed() || len(s.Differing) != 1 || s.Differing[0] != 2 {
		t.Errorf("another trace: %+v", s)
	}
	s = newSummary(&out)
	s.addHistory(history{Seed: 9, Failures: []string{"1 lost"}}, false, false)
	if !s.failed() || s.Failed[0] != 9 {
		t.Errorf("a failed history: %+v", s)
	}
	const ends = "pipeline: CHAOS-IN ends at message %d, stored 2000-01-01T00:00:%d.5Z; model %032x of dev0%02d-1\n"
	for i := range 3 {
		s.addHistory(history{Seed: 10, Exits: map[string]int{fmt.Sprintf(strings.Repeat(ends, 2)+"stopped", i, i, i, i, i+1, i, i, i): 2, "EOF": 1}}, false, false)
	}
	if want := map[string]int{"EOF": 3, "pipeline: CHAOS-IN ends at message N, stored TIME; model ID of NAME\nstopped": 6}; !maps.Equal(s.Exits, want) {
		t.Errorf("ends of workers: %v, want %v", s.Exits, want)
	}
	for _, want := range []string{"DIFFERS seed 2", "FAIL seed 9"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
	}
}

// TestServerLoops recognizes the server's endless loop by its running goroutine and the
// plan's full disk or killed server.
func TestServerLoops(t *testing.T) {
	const (
		loop  = "SIGQUIT: quit\n\ngoroutine 9 gp=0x1 m=0 [running, synctest bubble 1]:\nserver.(*fileStore).firstSeqForSubj(0x1)\nserver.(*fileStore).storeRawMsg(0x1)\n\n"
		other = "goroutine 1 gp=0x2 m=nil [chan receive]:\nmain.main()\n"
	)
	full, calm := &plan{Faults: []string{"15.5s full disk, pick 2, for 9s"}}, &plan{Faults: []string{"15.5s kill worker, pick 2, for 0s"}}
	killed := &plan{Faults: []string{"15.5s kill server, pick 2, for 1s"}}
	for _, c := range []struct {
		what   string
		plan   *plan
		stacks string
		want   bool
	}{
		{"a full disk", full, loop + other, true}, {"a killed server", killed, loop + other, true}, {"neither", calm, loop + other, false}, {"no plan", nil, loop, false},
		{"another goroutine", full, strings.Replace(other, "chan receive", "running", 1) + "\n" + strings.Replace(loop, "running", "select", 1), false},
	} {
		if got := serverLoops(c.plan, c.stacks); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestTotals sums two reports, one after lines of a run, then previous sums, and refuses an output without a report.
func TestTotals(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := newSummary(new(strings.Builder))
	s.addHistory(history{Seed: 3, Predictions: 5, Virtual: 5000, Faults: map[string]int{"purge": 2, "bit flip": 1}, Failures: []string{"wrong"}}, false, false)
	s.print()
	one := write("one", s.out.(*strings.Builder).String())
	two := write("two", `{
  "histories": 2, "failed": [], "predictions": 7, "faults": {"purge": 1}, "seen": {"labels": 4}, "virtual_s": 3000
}`)
	var out strings.Builder
	if err := printTotals(&out, []string{one, two}); err != nil {
		t.Fatal(err)
	}
	want := `what,name,other,count
histories,,,3
histories that failed,,,1
predictions compared,,,12
states compared,,,0
virtual hours,,,2
fault,bit flip,,1
fault,purge,,3
histories with a pair of faults,bit flip,purge,1
state reached,labels,,4
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	again := write("again.csv", want)
	out.Reset()
	if err := printTotals(&out, []string{again}); err != nil || out.String() != want {
		t.Errorf("of a sum: %v, %s", err, out.String())
	}
	out.Reset()
	if err := printTotals(&out, []string{again, two}); err != nil || !strings.Contains(out.String(), "\nfault,purge,,4\n") || !strings.Contains(out.String(), "histories,,,5\nhistories that failed,,,1\n") {
		t.Errorf("of a sum and a report: %v, %s", err, out.String())
	}
	if err := printTotals(&out, []string{write("other.csv", "what,name,other,count\nfaults,,,1\n")}); err == nil || !strings.Contains(err.Error(), `row 2: the count "faults" is not known`) {
		t.Errorf("another CSV: %v", err)
	}
	if err := printTotals(&out, []string{one, write("three", "simulate: 100 histories\n")}); err == nil || !strings.Contains(err.Error(), "three has no report") {
		t.Errorf("an output without a report: %v", err)
	}
}
