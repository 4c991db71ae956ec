package paper

import (
	"os"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// A bank's draw equals the model of offline.Retrain with the bank's recipe and the draw's
// seed, and its evaluation by offline.Evaluate.
func TestCompareIsRetrainAndEvaluate(t *testing.T) {
	d := tones(45, 12)
	plan := Plan{Models: []string{"euler", "tiny"}, Draws: 2} // one of each kind: the rest take long
	cells, st := runBench(t, Compare, Options{Plan: plan}, d)
	if len(cells) != len(plan.Models) {
		t.Fatalf("%d cells of banks %q", len(cells), plan.Models)
	}
	for _, c := range cells {
		for i := range plan.Draws {
			opt := bankOptions(c.Model, d)
			opt.Spec.Seed = 1 + uint64(i)
			m, report, err := offline.Retrain(t.Context(), d, opt, nil)
			if err != nil {
				t.Fatal(err)
			}
			ev, err := offline.Evaluate(t.Context(), m, d, offline.EvaluateOptions{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := st.draws[key{d.Name, c.Model, i}]
			leftOut, _ := report.Readout.LeftOut()
			if w.Test != (Share{ev.Correct, ev.Labeled}) || w.Config.Seed != opt.Spec.Seed || w.LeftOut != leftOut || w.Recipe == "" {
				t.Errorf("%s, draw %d: %+v, want %d of %d right", c.Model, i, w, ev.Correct, ev.Labeled)
			}
		}
	}
	if _, err := ReadResults(st.path); err != nil {
		t.Error(err)
	}
}

// A bank whose recipe has changed gets new draws, in place of existing draws only; draws
// of other banks stay.
func TestChangedRecipeIsDrawnAgain(t *testing.T) {
	d, opt := tones(45, 12), Options{Plan: Plan{Models: []string{"euler"}, Draws: 3}}
	_, first := runBench(t, Compare, opt, d)
	text, err := os.ReadFile(first.path)
	if err != nil {
		t.Fatal(err)
	}
	// The draw with index 1, and its correct predictions, become those of another recipe.
	today := first.draws[key{d.Name, "euler", 1}].Recipe
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"draw":{`) && strings.Contains(line, `"index":1,`) {
			line = strings.Replace(line, today, "0123456789abcdef", 1)
		}
		lines = append(lines, line)
	}
	if err := os.WriteFile(first.path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	st, err := Resume(first.path, NewSettings(Compare, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), []*archive.Dataset{d}, opt, st); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(first.path)
	if err != nil {
		t.Fatal(err)
	}
	added := strings.TrimPrefix(string(after), strings.Join(lines, ""))
	if strings.Count(added, `"draw":{`) != 1 || !strings.Contains(added, `"index":1,`) || !strings.Contains(added, today) {
		t.Errorf("resuming wrote\n%s\nwant draw 1 alone", added)
	}
	wantSame(t, "drawn again", st, first)
}

// Plans for banks, for searches and for no models are distinguished.
func TestComparePlans(t *testing.T) {
	for _, p := range []Plan{
		{Models: []string{BankModel}, Draws: 1}, {Models: []string{"eusn"}, Draws: 1}, {Models: []string{"euler"}},
		{Models: []string{"euler"}, Draws: 1, Configurations: 1}, {Models: []string{"euler", "euler"}, Draws: 1}, {Draws: 1},
	} {
		if err := p.Validate(NewSettings(Compare, 1)); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
	if err := (Plan{Models: []string{"euler"}, Draws: 1}).Validate(NewSettings(Bank, 1)); err == nil {
		t.Error("protocol bank accepted a bank by its name")
	}
}
