package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// tones is a small data set of three classes of sines on two channels, lengths
// 12 to 40, every third series beginning with zeros of its own.
func tones(train, test int) *offline.Dataset {
	rng := rand.New(rand.NewPCG(2, 7))
	d := &offline.Dataset{Name: "tones", Channels: []string{"a", "b"}, Classes: []string{"high", "low", "mid"}}
	for i := range train + test {
		s := offline.Series{ID: fmt.Sprint("s", i), Split: offline.Train, Label: i % 3}
		if i >= train {
			s.Split = offline.Test
		}
		if i%3 == 2 {
			s.Values = make([]float32, 2*rng.IntN(7))
		}
		step, phase := []float64{1.6, 0.2, 0.7}[s.Label], rng.Float64()
		for t := range 12 + rng.IntN(20) {
			s.Values = append(s.Values, float32(math.Sin(phase+step*float64(t))+0.1*rng.NormFloat64()), float32(rng.NormFloat64()))
		}
		d.Series = append(d.Series, s)
	}
	return d
}

// plan is a small one of the protocol's kind.
func plan(p Protocol, configurations, draws int, models ...string) Plan {
	if p == Bank {
		return Plan{[]string{BankModel}, 0, draws}
	}
	if len(models) == 0 {
		models = PaperModels
	}
	return Plan{models, configurations, draws}
}

// benched runs a bench into a new file and returns its cells and results.
func benched(t *testing.T, protocol Protocol, opt Options, sets ...*offline.Dataset) ([]Cell, *Store) {
	t.Helper()
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(protocol, 1))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := Run(t.Context(), sets, opt, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	return cells, st
}

// timeless takes out what two runs may differ in.
func (st *Store) timeless() (map[key]Trial, map[key]Draw) {
	trials, draws := map[key]Trial{}, map[key]Draw{}
	for k, t := range st.trials {
		t.Seconds = 0
		trials[k] = t
	}
	for k, d := range st.draws {
		d.Seconds = 0
		draws[k] = d
	}
	return trials, draws
}

func same(t *testing.T, what string, got, want *Store) {
	t.Helper()
	trials, draws := got.timeless()
	wantTrials, wantDraws := want.timeless()
	if !reflect.DeepEqual(trials, wantTrials) || !reflect.DeepEqual(draws, wantDraws) {
		t.Errorf("%s: other results", what)
	}
}

// The counts a short run of each protocol must give, on any machine, engine
// and number of threads. They change only where weights, states, split, search
// list or readout change.
func TestExactResults(t *testing.T) {
	for _, c := range []struct {
		protocol Protocol
		want     string
	}{
		{PaperExact, "eusn 3/60 9/20 6 6 6 | esn 0/150 12/20 10 9 10 | resn 3/190 9/20 6 8 7"},
		{Best, "eusn 2/40 14/20 11 12 13 | esn 3/120 15/20 13 15 14 | resn 2/170 15/20 13 13 13"},
	} {
		cells, st := benched(t, c.protocol, Options{Plan: plan(c.protocol, 8, 3)}, tones(60, 15))
		var text []string
		for _, cell := range cells {
			line := fmt.Sprintf("%s %d/%d %d/%d", cell.Model, cell.Selected, cell.Config.Units, cell.Validation.Correct, cell.Validation.Of)
			for i := range 3 {
				line += fmt.Sprint(" ", st.draws[key{"tones", cell.Model, i}].Test.Correct)
			}
			text = append(text, line)
		}
		if got := strings.Join(text, " | "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.protocol, got, c.want)
		}
	}
}

func TestSameOnAnyThreadsAndEngines(t *testing.T) {
	for _, protocol := range Protocols {
		do := plan(protocol, 3, 1)
		_, want := benched(t, protocol, Options{Plan: do, EngineOptions: offline.EngineOptions{Threads: 1}}, tones(45, 12))
		_, got := benched(t, protocol, Options{Plan: do, EngineOptions: offline.EngineOptions{Threads: 3}}, tones(45, 12))
		same(t, fmt.Sprintf("%s on 3 threads", protocol), got, want)
		generic := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			return reservoir.NewGeneric(net, slots)
		}
		_, got = benched(t, protocol, Options{Plan: do, EngineOptions: offline.EngineOptions{NewEngine: generic}}, tones(45, 12))
		same(t, fmt.Sprintf("%s on the generic engine", protocol), got, want)
	}
}

// Every series' state is that of running it alone from its first sample, zeros
// and padding included.
func TestSharedZerosChangeNoBit(t *testing.T) {
	for _, pad := range []bool{true, false} {
		p, err := newProblem(tones(240, 15), pad)
		if err != nil {
			t.Fatal(err)
		}
		if !p.shares(p.train) {
			t.Fatal("the test's series share too little")
		}
		net, err := reservoir.Draw(offline.PaperNetwork(2, reservoir.EuSN, offline.PaperScales{Units: 20, Eps: 0.1, Gamma: 0.01, Recurrent: 1, Input: 1, Bias: 1}))
		if err != nil {
			t.Fatal(err)
		}
		series := slices.Concat(p.validation, p.test)
		e, err := reservoir.NewCPU(net, len(series)+1, "auto", 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.run(t.Context(), e, series); err != nil {
			t.Fatal(err)
		}
		alone, err := reservoir.NewGeneric(net, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]float32, 20), make([]float32, 20)
		for k, i := range series {
			values := p.inputs[p.from[i]*2 : p.to[i]*2]
			if pad && len(values) != 2*(p.to[0]-p.from[0]) {
				t.Fatal("padded series differ in length")
			}
			err := errors.Join(alone.Advance(values, []reservoir.Run{{Reset: true, To: int32(len(values) / 2)}}, nil), alone.Features(0, want), e.Features(k, got))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("pad %v: series %d has another state", pad, i)
			}
		}
	}
}

// truncate keeps n lines of a file and some bytes of the next.
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

// Wherever a crash cuts the file, resuming gives the results of an undisturbed
// run and does nothing twice.
func TestResume(t *testing.T) {
	d, s, opt := tones(45, 12), NewSettings(PaperExact, 1), Options{Plan: plan(PaperExact, 5, 2, "eusn", "resn")}
	_, want := benched(t, PaperExact, opt, d)
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
			_, err = Run(t.Context(), []*offline.Dataset{d}, opt, st)
			if err := errors.Join(err, st.Close()); err != nil {
				t.Fatalf("%d lines and %d bytes: %v", n, more, err)
			}
			same(t, fmt.Sprintf("%d lines and %d bytes", n, more), st, want)
			after, err := os.ReadFile(path)
			if err != nil || strings.Count(string(after), "\n") != lines {
				t.Errorf("%d lines and %d bytes: %d lines after resuming, want %d", n, more, strings.Count(string(after), "\n"), lines)
			}
		}
	}
}

// A longer plan goes on from a shorter one and ends where it would have ended
// alone; draws of a configuration that is no longer the best are made again.
func TestResumeWithMore(t *testing.T) {
	d := tones(45, 12)
	_, want := benched(t, PaperExact, Options{Plan: plan(PaperExact, 30, 3, "eusn")}, d)
	_, st := benched(t, PaperExact, Options{Plan: plan(PaperExact, 1, 2, "eusn")}, d)
	first := st.draws[key{"tones", "eusn", 0}].Config
	st, err := Resume(st.path, st.settings)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), []*offline.Dataset{d}, Options{Plan: plan(PaperExact, 30, 3, "eusn")}, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	same(t, "a longer plan", st, want)
	if st, err = Resume(st.path, st.settings); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	same(t, "a longer plan, read back", st, want)
	if c := st.cells[key{"tones", "eusn", 0}]; c.Draws != 3 || c.Configurations != 30 {
		t.Errorf("the cell read back is %+v", c)
	}
	if first == st.draws[key{"tones", "eusn", 0}].Config {
		t.Error("the longer search chose the same configuration: nothing was tested")
	}
}

func TestResumeRefuses(t *testing.T) {
	d, s, opt := tones(45, 12), NewSettings(PaperExact, 1), Options{Plan: plan(PaperExact, 2, 1, "eusn")}
	_, done := benched(t, PaperExact, opt, d)
	if _, err := Create(done.path, s); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing file is begun again: %v", err)
	}
	var other *SettingsError
	for _, wrong := range []Settings{NewSettings(Best, 1), NewSettings(PaperExact, 2), {Protocol: PaperExact, Seed: 1, Arithmetic: 2}} {
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
	if _, err := Run(t.Context(), []*offline.Dataset{changed}, opt, st); !errors.As(err, &other) {
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

// A cancelled bench keeps what is finished.
func TestCancel(t *testing.T) {
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(PaperExact, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(t.Context())
	opt := Options{Plan: plan(PaperExact, 30, 1, "eusn"), Progress: func(int64, int64, string) { cancel() }}
	if _, err := Run(ctx, []*offline.Dataset{tones(45, 12)}, opt, st); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it cancelled", err)
	}
	if n := len(st.trials); n < 1 || n > 29 {
		t.Errorf("%d trials stored", n)
	}
}

// Lines are what the package comment says they are.
func TestFileIsJSONLines(t *testing.T) {
	_, st := benched(t, PaperExact, Options{Plan: plan(PaperExact, 2, 1, "esn"), Command: func(d, m string) string { return d + m }}, tones(45, 12))
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

// Choosing, averaging and judging, on figures made up here.
func TestCellAndVerdict(t *testing.T) {
	st := newStore("", NewSettings(PaperExact, 1))
	for i, right := range []int{7, 9, 8, 9} {
		st.trials[key{"Adiac", "eusn", i}] = Trial{Index: i, Config: offline.PaperScales{Units: []int{10, 20, 200, 30}[i]}, Validation: Share{right, 10}, Seconds: 1}
	}
	for i, right := range []int{44, 48} {
		st.draws[key{"Adiac", "eusn", i}] = Draw{Test: Share{right, 100}, Seconds: float64(i)}
	}
	c, err := st.cell("Adiac", "eusn", plan(PaperExact, 4, 2))
	if err != nil {
		t.Fatal(err)
	}
	if c.Selected != 1 || !slices.Equal(c.Tied, []int{3}) || c.AtPaper.Correct != 8 || math.Abs(c.Accuracy-0.46) > 1e-12 || math.Abs(c.Deviation-0.02) > 1e-12 || c.Seconds != 0.5 || c.Searched != 4 {
		t.Errorf("cell %+v", c)
	}
	for _, v := range []struct {
		protocol   Protocol
		model      string
		accuracy   float64
		deviation  float64
		within, ok bool
	}{
		{PaperExact, "eusn", 0.46, 0, true, true},   // paper .442 +- .009: .02 is the tolerance
		{PaperExact, "eusn", 0.47, 0, false, true},  // .028 above
		{PaperExact, "eusn", 0.47, .02, true, true}, // our own deviation counts
		{PaperExact, "eusn", 0.41, 0, false, true},
		{Best, "eusn", 0.9, 0, true, true},
		{Best, "eusn", 0.41, 0, false, true},
		{Bank, BankModel, 0.7, 0, true, true},
		{PaperExact, "esn", 0.28, 0, true, true}, // .159 +- .067
	} {
		st.settings.Protocol = v.protocol
		got, ok := st.Judge(Cell{Dataset: "Adiac", Model: v.model, Accuracy: v.accuracy, Deviation: v.deviation})
		if got.Within != v.within || ok != v.ok || !got.Gated {
			t.Errorf("%+v: %+v", v, got)
		}
	}
	if _, ok := st.Judge(Cell{Dataset: "tones", Model: "eusn"}); ok {
		t.Error("a verdict on a set that the paper does not have")
	}
}
