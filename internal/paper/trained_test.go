package paper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// trainPlan is a small search among trained models.
func trainPlan(configurations, epochs int, models ...string) Plan {
	return Plan{Models: models, Configurations: configurations, Draws: 2, Epochs: epochs}
}

// NumPy's draws in the published program's order.
func TestTrainableConfigurations(t *testing.T) {
	type c struct {
		units      int
		rate       float64
		batch      int
		gamma, eps float64
	}
	for model, want := range map[string]map[int]c{
		"gru":  {0: {60, 1e-1, 256, 0, 0}, 1: {100, 1e-5, 64, 0, 0}, 199: {180, 1e-1, 32, 0, 0}},
		"arnn": {0: {70, 1e-5, 256, 1e-5, 1e-5}, 1: {200, 1e-2, 128, 1e-1, 1e-5}, 199: {150, 1e-2, 128, 1e-4, 1e-2}},
		"rnn":  {0: {180, 1e-4, 32, 0, 0}, 1: {130, 1e-2, 64, 0, 0}, 199: {60, 1e-1, 128, 0, 0}},
	} {
		list := trainables(model)
		for i, w := range want {
			got := c{list[i].scales.Units, list[i].training.Rate, list[i].training.Batch, list[i].scales.Gamma, list[i].scales.Eps}
			if got != w {
				t.Errorf("%s, configuration %d: %+v, want %+v", model, i, got, w)
			}
		}
	}
}

// The removal of small learning rates keeps the order of the rest, and is part of a
// file's settings.
func TestLeastRate(t *testing.T) {
	s := NewSettings(PaperExact, 1)
	for _, model := range TrainedModels {
		whole := s.trainables(model)
		s.LeastRate = 1e-4
		want := slices.DeleteFunc(slices.Clone(whole), func(c trainable) bool { return c.training.Rate == 1e-5 })
		if got := s.trainables(model); !slices.Equal(got, want) || len(got) == len(whole) || len(whole) != MaxConfigurations {
			t.Errorf("%s: %d of %d configurations, want %d", model, len(got), len(whole), len(want))
		}
		plan := trainPlan(len(want)+1, 1, model)
		if err := plan.Validate(s); err == nil || !strings.Contains(err.Error(), fmt.Sprint("want 1 to ", len(want))) {
			t.Errorf("%s: one configuration too many: %v", model, err)
		}
		for _, rate := range []float64{-1, 1, math.NaN()} {
			s.LeastRate = rate
			if err := trainPlan(1, 1, model).Validate(s); err == nil {
				t.Errorf("%s: a least rate of %g is accepted", model, rate)
			}
		}
		s.LeastRate = 0
	}
}

// Trials of another arithmetic are repeated; a file with such trials is readable.
func TestOtherArithmetic(t *testing.T) {
	d, opt := tones(24, 6), Options{Plan: trainPlan(1, 1, "rnn")}
	_, want := runBench(t, PaperExact, opt, d)
	whole, err := os.ReadFile(want.path)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.ReplaceAll(string(whole), `,"arithmetic":2}`, "}")
	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(path, []byte(old), 0o644); err != nil || old == string(whole) {
		t.Fatal(err, "or no arithmetic is noted")
	}
	if _, err := ReadResults(path); err != nil {
		t.Error(err)
	}
	st, err := Resume(path, want.settings)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), []*archive.Dataset{d}, opt, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "resumed", st, want)
}

// Exact results of a short run: the same on any number of threads.
func TestTrainedModels(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: short; threads are in TestTrainedOnAnyThreads")
	}
	for _, c := range []struct {
		protocol Protocol
		want     string
	}{
		{PaperExact, "rnn 0/180 6/20 6 3 | arnn 0/70 6/20 5 5 | gru 2/20 17/20 7 10"},
		{Best, "rnn 2/110 9/20 5 4 | arnn 0/70 6/20 6 5 | gru 2/20 14/20 10 11"},
	} {
		opt := Options{Plan: trainPlan(3, 8, TrainedModels...), EngineOptions: offline.EngineOptions{Threads: 1}}
		cells, one := runBench(t, c.protocol, opt, tones(60, 15))
		var text []string
		for _, cell := range cells {
			line := fmt.Sprintf("%s %d/%d %d/%d", cell.Model, cell.Selected, cell.Config.Units, cell.Validation.Correct, cell.Validation.Of)
			for i := range 2 {
				line += fmt.Sprint(" ", one.draws[key{"tones", cell.Model, i}].Test.Correct)
			}
			text = append(text, line)
			if cell.Parameters < cell.Config.Units*cell.Config.Units || cell.Learned != 40 || cell.Searched <= 0 || cell.Configurations != 3 {
				t.Errorf("%+v", cell)
			}
		}
		// On other architectures exponentials differ in last bits, and counts may differ.
		if got := strings.Join(text, " | "); got != c.want && runtime.GOARCH == "amd64" {
			t.Errorf("%s:\n got %s\nwant %s", c.protocol, got, c.want)
		}
		if c.protocol == Best {
			continue // threads have the same part in both
		}
		opt.Threads = 3
		_, three := runBench(t, c.protocol, opt, tones(60, 15))
		wantSame(t, "three threads", three, one)
	}
}

// A short run of everything that concerns the race detector.
func TestTrainedOnAnyThreads(t *testing.T) {
	opt := Options{Plan: trainPlan(3, 1, "gru"), EngineOptions: offline.EngineOptions{Threads: 1}}
	_, one := runBench(t, PaperExact, opt, tones(24, 6))
	opt.Threads = 3
	_, three := runBench(t, PaperExact, opt, tones(24, 6))
	wantSame(t, "three threads", three, one)
}

// For any cut of the file by a crash, a resumed run gives the same results.
func TestResumeTraining(t *testing.T) {
	d, opt := tones(24, 6), Options{Plan: trainPlan(2, 1, "rnn", "gru")}
	_, want := runBench(t, PaperExact, opt, d)
	whole, err := os.ReadFile(want.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(string(whole), "\n")
	if lines != 1+1+2*(2+2+1) {
		t.Errorf("%d lines, want settings, data and 2 x (2 trials, 2 draws, 1 cell)", lines)
	}
	for n := 0; n < lines; n += 3 {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		truncate(t, path, n, 9)
		st, err := Resume(path, want.settings)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), []*archive.Dataset{d}, opt, st)
		if err := errors.Join(err, st.Close()); err != nil {
			t.Fatal(err)
		}
		wantSame(t, fmt.Sprintf("%d lines", n), st, want)
		if after, _ := os.ReadFile(path); strings.Count(string(after), "\n") != lines {
			t.Errorf("%d lines: %d after resuming", n, strings.Count(string(after), "\n"))
		}
	}
	// Longer trainings count as different trainings.
	st, err := Resume(want.path, want.settings)
	if err != nil {
		t.Fatal(err)
	}
	opt.Epochs = 2
	cells, err := Run(t.Context(), []*archive.Dataset{d}, opt, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	_, alone := runBench(t, PaperExact, opt, d)
	wantSame(t, "resumed with more epochs", st, alone)
	if cells[0].Training.Epochs != 2 || want.cells[key{"tones", "rnn", 0}].Training.Epochs != 1 {
		t.Errorf("%+v", cells[0])
	}
}

// The budget ends a search; the result covers the finished configurations, and equals a
// search of this number of configurations.
func TestBudget(t *testing.T) {
	d, opt := tones(24, 6), Options{Plan: trainPlan(5, 2, "rnn")}
	_, full := runBench(t, PaperExact, opt, d)

	// Trials 0, 1 and 3 took 4 s each; trial 2 was interrupted.
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(PaperExact, 1))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		trial := full.trials[key{"tones", "rnn", i}]
		trial.Seconds = 4
		if i == 2 {
			trial.Cut, trial.Validation = true, Share{}
		}
		if err := st.writeRecord(record{Trial: &trial}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(budget time.Duration) Cell {
		t.Helper()
		opt.Budget = budget
		cells, err := Run(t.Context(), []*archive.Dataset{d}, opt, st)
		if err != nil {
			t.Fatal(err)
		}
		return cells[0]
	}
	opt.Configurations = 2
	_, two := runBench(t, PaperExact, opt, d)
	opt.Configurations = 5
	c := run(15 * time.Second)
	if c.Configurations != 2 || c.Searched != 16 || c.Selected != two.cells[key{"tones", "rnn", 0}].Selected || c.Accuracy != two.cells[key{"tones", "rnn", 0}].Accuracy {
		t.Errorf("%+v, want that of two configurations, searched for 16 s", c)
	}
	if len(st.trials) != 4 || !st.trials[key{"tones", "rnn", 2}].Cut {
		t.Error("a search beyond its budget continued")
	}
	// With a larger budget, the search continues.
	if c := run(time.Hour); c.Configurations != 5 {
		t.Errorf("%+v, want five configurations", c)
	}
	trials, _ := st.timeless()
	want, _ := full.timeless()
	for k, v := range want {
		if trials[k] != v {
			t.Errorf("trial %v: %+v, want %+v", k, trials[k], v)
		}
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// A budget too small for any trial leaves a cell with the reason; the remaining models
// continue.
func TestTooSmallBudget(t *testing.T) {
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(PaperExact, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	opt := Options{Plan: trainPlan(5, PaperEpochs, "arnn", "eusn")}
	opt.Budget = 30 * time.Millisecond
	first, second := tones(300, 12), tones(300, 12)
	second.Name = "second"
	sets := []*archive.Dataset{first, second}
	cells, err := Run(t.Context(), sets, opt, st)
	if err != nil || len(cells) != 4 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	const why = "no configuration was trained within the budget of 30ms: increase the budget, or use fewer epochs than 5000"
	for i, c := range cells {
		if want := []string{why, ""}[i%2]; c.Missing != want || c.Dataset != sets[i/2].Name || (c.Draws == 0) != (want != "") {
			t.Errorf("cell %d: %+v, want missing %q", i, c, want)
		}
		if _, ok := st.Judge(Cell{Dataset: "Adiac", Model: c.Model, Missing: c.Missing}); ok != (c.Missing == "") {
			t.Errorf("cell %d is judged: %v", i, ok)
		}
	}
	if !st.trials[key{"tones", "arnn", 0}].Cut {
		t.Error("what was cut is not noted")
	}
	if rs, err := ReadResults(st.path); err != nil || len(rs.Cells()) != 4 {
		t.Errorf("read back: %v", err)
	}
	// With fewer epochs, it is another search, with a result.
	opt.Plan, opt.Budget = trainPlan(1, 1, "arnn", "eusn"), 0
	if cells, err = Run(t.Context(), sets[:1], opt, st); err != nil || cells[0].Missing != "" || st.cells[key{"tones", "arnn", 0}].Draws != 2 {
		t.Errorf("%+v, %v, want a result", cells, err)
	}
}

// A training reports its progress while it runs, and can be canceled.
func TestCancelTraining(t *testing.T) {
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(PaperExact, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(t.Context())
	opt := Options{Plan: trainPlan(1, PaperEpochs, "gru"), Progress: func(int64, int64, string) { cancel() }}
	if _, err := Run(ctx, []*archive.Dataset{tones(45, 12)}, opt, st); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it canceled", err)
	}
	if len(st.trials) > 0 {
		t.Errorf("stored %+v", st.trials)
	}
}

// The paper's figure is a yardstick only for the paper's search.
func TestShortTrainingIsNotGated(t *testing.T) {
	st := newStore("", NewSettings(PaperExact, 1))
	for _, c := range []struct {
		configurations, epochs int
		gated                  bool
	}{{200, 5000, true}, {199, 5000, false}, {200, 4999, false}} {
		cell := Cell{Dataset: "Adiac", Model: "arnn", Accuracy: 0.4, Configurations: c.configurations, Training: Training{Epochs: c.epochs}}
		v, ok := st.Judge(cell)
		if !ok || v.Paper.Accuracy != 0.528 || v.Paper.Units != 170 || v.Gated != c.gated {
			t.Errorf("%+v: %+v, %v", c, v, ok)
		}
	}
}
