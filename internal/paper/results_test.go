package paper

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Stored predictions belong to the draws, under every protocol and kind of model, and a
// file is read as it was written.
func TestPredictionsAreStored(t *testing.T) {
	for _, c := range []struct {
		protocol Protocol
		plan     Plan
	}{
		{PaperExact, smallPlan(PaperExact, 3, 2, "eusn")},
		{Best, trainPlan(2, 4, "gru")},
		{Bank, smallPlan(Bank, 0, 2)},
	} {
		d := tones(45, 12)
		cells, st := runBench(t, c.protocol, Options{Plan: c.plan, Origin: &Origin{"p", "m", "b"}}, d)
		rs, err := ReadResults(st.path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(rs.Cells(), cells) || rs.Settings() != st.settings || !slices.Equal(rs.Origins(), []Origin{{"p", "m", "b"}}) {
			t.Errorf("%s: read back %+v, want %+v", c.protocol, rs.Cells(), cells)
		}
		data := rs.Data("tones")
		for i, truth := range data.Truth {
			if want := d.Series[45+i].Label; truth != want {
				t.Errorf("%s: true class of test series %d: %d, want %d", c.protocol, i, truth, want)
			}
		}
		for _, w := range rs.DrawsOf(cells[0]) {
			if len(w.Predicted) != 12 { // reading has checked that they give the draw's accuracy
				t.Errorf("%s: %d predictions, want 12", c.protocol, len(w.Predicted))
			}
			if bank := c.protocol == Bank; bank != (w.Readout == "ridge" || w.Readout == "discriminant") || bank != (w.LeftOut > 1./3) {
				t.Errorf("%s: readout %q, leave-one-out accuracy %g", c.protocol, w.Readout, w.LeftOut)
			}
		}
	}
}

// A class without training series is -1, and the following classes move up.
func TestTruthOfUnknownClasses(t *testing.T) {
	d := tones(45, 12)
	d.Series = slices.DeleteFunc(d.Series, func(s archive.Series) bool { return s.Split == archive.Train && s.Label == 1 })
	want := make([]int, 12)
	for i := range want {
		want[i] = []int{0, -1, 1}[i%3]
	}
	data := describe(d)
	if !slices.Equal(data.Truth, want) || data.Classes != 2 || data.Unknown != 4 {
		t.Errorf("%+v", data)
	}
	_, st := runBench(t, PaperExact, Options{Plan: smallPlan(PaperExact, 2, 1, "eusn")}, d)
	if _, err := ReadResults(st.path); err != nil {
		t.Error(err)
	}
}

func TestReadResultsRefuses(t *testing.T) {
	_, st := runBench(t, PaperExact, Options{Plan: smallPlan(PaperExact, 3, 2, "eusn")}, tones(45, 12))
	text, err := os.ReadFile(st.path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) string {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	last := strings.LastIndex(strings.TrimSuffix(string(text), "\n"), "\n") + 1
	for _, c := range []struct{ name, path, says string }{
		{"empty", write(""), "is empty"},
		{"torn", write(string(text[:len(text)-5])), "the last line is incomplete"},
		{"one torn line", write(`{"settings":`), "the last line is incomplete"},
		{"another format", write(strings.Replace(string(text), `"format":1`, `"format":2`, 1)), "has version 2, and this program reads version 1"},
		{"a field of the future", write(strings.Replace(string(text), `"channels"`, `"colors"`, 1)), `line 2 is no result of this program: json: unknown field "colors"`},
		{"another protocol", write(strings.Replace(string(text), "paper-exact", "guess", 1)), `protocol "guess", want one of`},
		{"no data", write(string(text[:strings.Index(string(text), "\n")+1]) + string(text[last:])), "without a data line"},
		{"a lie in the cell", edit(t, st.path, func(r *record) {
			if r.Cell != nil {
				r.Cell.Accuracy += .01
			}
		}), "its trials and draws give"},
		{"a lie in a draw", edit(t, st.path, func(r *record) {
			if r.Draw != nil && r.Draw.Index == 1 {
				r.Draw.Test.Correct++
			}
		}), "draw 1: "},
		{"more right than asked", edit(t, st.path, func(r *record) {
			if r.Draw != nil {
				r.Draw.Test.Correct, r.Draw.Predicted = 13, nil
			}
		}), "13 of 12 right"},
		{"a class that is not there", edit(t, st.path, func(r *record) {
			if r.Draw != nil {
				r.Draw.Predicted[3] = 3
			}
		}), "series 3: predicted class 3"},
		{"a draw of another configuration", edit(t, st.path, func(r *record) {
			if r.Draw != nil {
				r.Draw.Config.Units++
			}
		}), "is not of configuration"},
		{"no draws", edit(t, st.path, func(r *record) {
			if r.Cell != nil {
				r.Cell.Draws = 0
			}
		}), "the cell has accuracy"},
		{"draws that are not there", edit(t, st.path, func(r *record) {
			if r.Cell != nil {
				r.Cell.Draws = 1 << 60
			}
		}), "draw 2 has no result"},
	} {
		if _, err := ReadResults(c.path); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	unfinished := write(string(text[:last]))
	rs, err := ReadResults(unfinished)
	if want := []Unfinished{{"tones", "eusn", 3, 2}}; err != nil || !slices.Equal(rs.Unfinished(), want) || len(rs.Cells()) != 0 {
		t.Errorf("unfinished: %+v, %v, want %+v", rs, err, want)
	}
}

// edit returns a copy of a results file with changed records.
func edit(t *testing.T, path string, change func(*record)) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		change(&r)
		changed, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(changed, '\n'))
	}
	to := filepath.Join(t.TempDir(), "edited.jsonl")
	if err := os.WriteFile(to, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
