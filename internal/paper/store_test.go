package paper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// truncate keeps n lines of a file and some bytes of the next line.
func truncate(t *testing.T, path string, n, more int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	kept := strings.Join(lines[:n], "")
	if more > 0 {
		kept += lines[n][:more]
	}
	if err := os.WriteFile(path, []byte(kept), 0o644); err != nil {
		t.Fatal(err)
	}
}

// For any cut of the file by a crash, a resumed run gives the results of an undisturbed
// run and repeats no work.
func TestResume(t *testing.T) {
	d, s, opt := tones(45, 12), NewSettings(PaperExact, 1), Options{Plan: smallPlan(PaperExact, 5, 2, "eusn", "resn")}
	_, want := runBench(t, PaperExact, opt, d)
	whole, err := os.ReadFile(want.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(string(whole), "\n")
	if lines != 1+1+2*(5+2+1) {
		t.Errorf("%d lines, want settings, data and 2 x (5 trials, 2 draws, 1 cell)", lines)
	}
	for n := range lines {
		for _, more := range []int{0, 1, 20} {
			path := filepath.Join(t.TempDir(), "r.jsonl")
			if err := os.WriteFile(path, whole, 0o644); err != nil {
				t.Fatal(err)
			}
			truncate(t, path, n, more)
			st, err := Resume(path, s)
			if err != nil {
				t.Fatalf("%d lines and %d bytes: %v", n, more, err)
			}
			_, err = Run(t.Context(), []*archive.Dataset{d}, opt, st)
			if err := errors.Join(err, st.Close()); err != nil {
				t.Fatalf("%d lines and %d bytes: %v", n, more, err)
			}
			wantSame(t, fmt.Sprintf("%d lines and %d bytes", n, more), st, want)
			after, err := os.ReadFile(path)
			if err != nil || strings.Count(string(after), "\n") != lines {
				t.Errorf("%d lines and %d bytes: %d lines after resuming, want %d", n, more, strings.Count(string(after), "\n"), lines)
			}
			back, err := Resume(path, s)
			if err != nil {
				t.Fatalf("%d lines and %d bytes, read back: %v", n, more, err)
			}
			wantSame(t, fmt.Sprintf("%d lines and %d bytes, read back", n, more), back, want)
			if err := back.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Two runs must not write the same file: the second would remove additions of the first
// made while it reads.
func TestOneRunWrites(t *testing.T) {
	path, s := filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(PaperExact, 1)
	for _, open := range []func(string, Settings) (*Store, error){Create, Resume} {
		st, err := open(path, s)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := Resume(path, s); runtime.GOOS != "windows" && !errors.Is(err, ErrInUse) {
			t.Errorf("a second run: %v, %v, want ErrInUse", second, err)
		}
		if _, err := ReadResults(path); err != nil {
			t.Errorf("a report of a file in use: %v", err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// After a failed write, of which a part may be in the file, nothing is written: a line
// after half a line would make the file permanently unreadable.
func TestNothingFollowsAFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	st, err := Create(path, NewSettings(PaperExact, 1))
	if err != nil {
		t.Fatal(err)
	}
	whole := st.file
	if st.file, err = os.Open(path); err != nil { // cannot be written, as a full disk
		t.Fatal(err)
	}
	failed := st.writeRecord(record{Trial: &Trial{Dataset: "d"}})
	if failed == nil {
		t.Fatal("a write to a file that cannot be written succeeded")
	}
	st.file.Close()
	st.file = whole // free space again
	if err := st.writeRecord(record{Trial: &Trial{Dataset: "d", Index: 1}}); err != failed {
		t.Errorf("a write after a failed one: %v, want %v", err, failed)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%v, the file holds more than its settings:\n%s", err, text)
	}
}

// A longer plan continues a shorter plan and ends with the same results as a run of its
// own; draws of a configuration that is no longer the best are repeated.
func TestResumeWithMore(t *testing.T) {
	d := tones(45, 12)
	_, want := runBench(t, PaperExact, Options{Plan: smallPlan(PaperExact, 30, 3, "eusn")}, d)
	_, st := runBench(t, PaperExact, Options{Plan: smallPlan(PaperExact, 1, 2, "eusn")}, d)
	first := st.draws[key{"tones", "eusn", 0}].Config
	st, err := Resume(st.path, st.settings)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), []*archive.Dataset{d}, Options{Plan: smallPlan(PaperExact, 30, 3, "eusn")}, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "a longer plan", st, want)
	if st, err = Resume(st.path, st.settings); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	wantSame(t, "a longer plan, read back", st, want)
	if c := st.cells[key{"tones", "eusn", 0}]; c.Draws != 3 || c.Configurations != 30 {
		t.Errorf("the cell read back is %+v", c)
	}
	if first == st.draws[key{"tones", "eusn", 0}].Config {
		t.Error("the longer search chose the same configuration: nothing was tested")
	}
}

func TestResumeRefuses(t *testing.T) {
	d, s, opt := tones(45, 12), NewSettings(PaperExact, 1), Options{Plan: smallPlan(PaperExact, 2, 1, "eusn")}
	_, done := runBench(t, PaperExact, opt, d)
	if _, err := Create(done.path, s); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing file is begun again: %v", err)
	}
	var other *SettingsError
	for _, wrong := range []Settings{NewSettings(Best, 1), NewSettings(PaperExact, 2), {Protocol: PaperExact, Seed: 1, Arithmetic: 2}, {Protocol: PaperExact, Seed: 1, Arithmetic: s.Arithmetic, Format: format, Bank: bank}} {
		if _, err := Resume(done.path, wrong); !errors.As(err, &other) || !strings.Contains(err.Error(), "cannot be mixed") {
			t.Errorf("%+v: %v, want it refused", wrong, err)
		}
	}
	changed := tones(45, 12)
	changed.Series[50].Values[0]++
	st, err := Resume(done.path, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), []*archive.Dataset{changed}, opt, st); !errors.As(err, &other) {
		t.Errorf("another data set of the same name: %v, want it refused", err)
	}
	before, err := os.ReadFile(done.path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"garbage":     strings.Replace(string(before), `{"trial"`, `{"tri`, 1),
		"no settings": string(before[strings.Index(string(before), "\n")+1:]),
		"other file":  "id,label\n1,2\n",
		"two in one":  strings.Replace(string(before), "}\n{\"trial\"", "}{\"trial\"", 1),
		"two kinds":   strings.Replace(string(before), `{"trial"`, `{"cell":{},"trial"`, 1),
		"none":        string(before) + "{}\n",
		"null":        string(before) + "null\n",
	} {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(path, s); err == nil || !strings.Contains(err.Error(), "line") {
			t.Errorf("%s: %v, want a complaint with the line", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// Lines have the form of the package comment.
func TestFileIsJSONLines(t *testing.T) {
	_, st := runBench(t, PaperExact, Options{Plan: smallPlan(PaperExact, 2, 1, "esn"), Command: func(c Cell) string { return c.Dataset + c.Model }}, tones(45, 12))
	text, err := os.ReadFile(st.path)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &fields); err != nil || len(fields) != 1 {
			t.Errorf("%q: %v, want one object of one field", line, err)
		}
		for k := range fields {
			kinds[k]++
		}
	}
	if want := map[string]int{"settings": 1, "data": 1, "trial": 2, "draw": 1, "cell": 1}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("lines %v, want %v", kinds, want)
	}
	if !strings.Contains(string(text), `"command":"tonesesn"`) {
		t.Error("no command in the cell")
	}
}
