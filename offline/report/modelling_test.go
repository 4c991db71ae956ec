package report

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/bench"
)

// modelledFile runs offline modelling on a small data set. The name is the data set's.
func modelledFile(t *testing.T, name string, seed uint64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "modelling.jsonl")
	st, err := bench.Create(path, bench.NewSettings(bench.Modelling, seed))
	if err != nil {
		t.Fatal(err)
	}
	o := bench.ModelOptions{Plan: bench.Plan{Models: []string{"eusn", "deepesn"}, Configurations: 2, Draws: 2}}
	o.Command = func(m bench.Modelled) string { return "eusn-stream offline modelling --models " + m.Model }
	_, err = bench.Model(t.Context(), []*offline.Dataset{waves(name, 2, 1)}, o, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// The page, modelling.csv and results.jsonl have what offline modelling gives.
func TestModelling(t *testing.T) {
	path := modelledFile(t, "tides", 1)
	rs, err := bench.ReadResults(path)
	if err != nil {
		t.Fatal(err)
	}
	r := loaded(t, Options{}, path)
	files := all(t, r)
	rows, err := csv.NewReader(strings.NewReader(files["modelling.csv"])).ReadAll()
	if err != nil || len(rows) != 1+4 {
		t.Fatalf("%v: modelling.csv:\n%s", err, files["modelling.csv"])
	}
	page := strings.NewReplacer("<span>", "", "</span>", "").Replace(files["report.html"])
	for i, m := range rs.Modelled() {
		if m.RMSE == 0 || m.Repeating == 0 || (m.Input != (i%2 == 1)) {
			t.Fatalf("result %d: %+v", i, m)
		}
		if got := strings.Join(rows[i+1][:8], " "); got != strings.Join([]string{m.Dataset, m.Model, []string{"false", "true"}[i%2], number(m.RMSE), number(m.Deviation), "2", number(m.Repeating), "200"}, " ") {
			t.Errorf("modelling.csv: %s", got)
		}
		for _, want := range []string{number(m.RMSE)[:7], number(m.Repeating)[:6], m.Command} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		var line modelledLine
		if err := json.Unmarshal([]byte(strings.Split(files["results.jsonl"], "\n")[i]), &line); err != nil || line.Modelled != m || len(line.Draws) != 2 {
			t.Errorf("results.jsonl: %v, %+v", err, line)
		}
	}
	if s := r.Summary(); len(s.Protocols) != 1 || s.Protocols[0].Cells != 4 || len(s.Protocols[0].Models) != 2 || s.Compared != 0 {
		t.Errorf("summary %+v", s)
	}
	if strings.Contains(page, "0 of 0") || !strings.Contains(page, "the paper has no figure") || strings.Contains(page, `id="cells"`) {
		t.Error("the page counts results that it does not have")
	}

	// Beside others, in any order.
	a, b := all(t, loaded(t, Options{}, append([]string{path}, inputs...)...)), all(t, loaded(t, Options{}, append(inputs[:len(inputs):len(inputs)], path)...))
	if a["report.html"] != b["report.html"] || a["modelling.csv"] != files["modelling.csv"] || !strings.Contains(a["report.html"], "Protocol bank") {
		t.Error("the order of files matters, or what is next to them")
	}
}

func TestModellingRefuses(t *testing.T) {
	path := modelledFile(t, "Blink", 1)
	change := func(kind, field string, value any) string {
		return edited(t, path, func(k string, f map[string]any) {
			if k == kind {
				f[field] = value
			}
		})
	}
	for _, c := range []struct {
		paths []string
		says  string
	}{
		{[]string{path, modelledFile(t, "Waves", 2)}, "of the same protocol modelling of seed 2"},
		{[]string{path, change("trial", "seconds", 1)}, "modelling, Blink, eusn is in"},
		{[]string{path, "testdata/paper.jsonl"}, `data set "Blink" in`}, // other data of that name
		{[]string{change("modelled", "rmse", 1)}, "the line says RMSE 1"},
		{[]string{change("modelled", "repeating", -1)}, "the line says RMSE"},
		{[]string{change("modelled", "draws", 3)}, "draw 2 is absent"},
		{[]string{change("modelled", "draws", 1<<40)}, "draws, want"},
		{[]string{change("modelled", "configurations", 3)}, "configuration 2 has no result"},
		{[]string{change("modelled", "dataset", "Other")}, "not described"},
	} {
		if _, err := Load(c.paths, Options{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}

	unfinished := edited(t, path, func(kind string, f map[string]any) {
		if kind == "modelled" && f["model"] == "eusn" && f["input_to_readout"] == true {
			clear(f)
		}
	})
	r := loaded(t, Options{}, unfinished)
	if missing := strings.Join(r.Summary().Missing, "\n"); !strings.Contains(missing, "modelling, Blink, EuSN with the input is not finished (2 trials, 2 draws): offline modelling --resume continues") {
		t.Errorf("missing: %s", missing)
	}
	if len(r.Summary().Unfinished) != 1 || r.Summary().Protocols[0].Cells != 3 {
		t.Errorf("%+v", r.Summary())
	}
}
