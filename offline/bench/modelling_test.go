package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/offline"
)

// goldenModelling is testdata/modelling.json, written by modelling.py with
// NumPy and scikit-learn.
type goldenModelling struct {
	Learn, Ask [][]float32
	Configs    map[string]Scales
	RMSE       map[string]struct{ Without, With float64 }
	Lists      map[string]string
}

func readGoldenModelling(t *testing.T, text []byte) (g goldenModelling) {
	t.Helper()
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.RMSE) != 4 || len(g.Lists) != 8 {
		t.Fatalf("%d errors and %d lists, want 4 and 8", len(g.RMSE), len(g.Lists))
	}
	return g
}

func committedModelling(t *testing.T) goldenModelling {
	t.Helper()
	text, err := os.ReadFile("testdata/modelling.json")
	if err != nil {
		t.Fatal(err)
	}
	return readGoldenModelling(t, text)
}

func TestModellingGoldenIsWhatLibrariesGive(t *testing.T) {
	out, err := exec.Command(sklearn(t), "testdata/modelling.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, want := readGoldenModelling(t, out), committedModelling(t)
	for model, w := range want.RMSE {
		// The last bits are the BLAS's.
		if g := got.RMSE[model]; !(math.Abs(g.With-w.With) < 1e-9) || !(math.Abs(g.Without-w.Without) < 1e-9) {
			t.Errorf("%s: modelling.py prints %+v, modelling.json holds %+v", model, g, w)
		}
	}
	got.RMSE = want.RMSE
	if !reflect.DeepEqual(got, want) {
		t.Error("modelling.py prints something else than modelling.json holds")
	}
}

func TestModellingListsAreNumPys(t *testing.T) {
	for name, want := range committedModelling(t).Lists {
		model, with := strings.CutSuffix(name, "+input")
		var all []int
		for _, c := range ModellingConfigurations(model, with) {
			if c.Units != 200 {
				t.Fatalf("%s: %d units", name, c.Units)
			}
			f := fields(model, c)
			if model == DeepESN {
				f = append(f[:1], f[2:]...) // without the units
			} else {
				f = f[1:]
			}
			switch model {
			case "eusn": // drawn in the order gamma, eps, input, recurrent, bias
			case DeepESN:
				f[3] /= 3
			default:
				f[2] /= 3
			}
			all = append(all, f...)
		}
		if got := digest(all); got != want {
			t.Errorf("%s: digest of the list is %s, want %s", name, got, want)
		}
	}
	if ModellingConfigurations("gru", true) != nil {
		t.Error("a list for a model that is not modelled with")
	}
}

// waves is a data set of one channel: its series as given.
func waves(learn, ask [][]float32) *offline.Dataset {
	d := &offline.Dataset{Name: "waves", Channels: []string{"x"}}
	for i, v := range append(append([][]float32{}, learn...), ask...) {
		s := offline.Series{ID: fmt.Sprint("s", i), Split: offline.Train, Label: -1, Values: v}
		if i >= len(learn) {
			s.Split = offline.Test
		}
		d.Series = append(d.Series, s)
	}
	return d
}

func TestRMSEIsNumPys(t *testing.T) {
	g := committedModelling(t)
	p, err := newModellingProblem(waves(g.Learn, g.Ask))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range g.RMSE {
		for _, input := range []bool{false, true} {
			w := want.Without
			if input {
				w = want.With
			}
			list := specs(model, 1, g.Configs[model])
			got, err := p.rmse(t.Context(), list, openAuto, input, p.train, p.test)
			if err != nil {
				t.Fatal(err)
			}
			// States are float32 here and float64 there: some 1e-7 of them, which the
			// weights' size multiplies. They have been off by 2e-8 at most.
			if !(math.Abs(got-w) < 2e-7) {
				t.Errorf("%s, input %v: %.9f, want %.9f", model, input, got, w)
			}
			t.Logf("%s, input %v: off by %.2g", model, input, got-w)
			if other, err := p.rmse(t.Context(), list, openGeneric, input, p.train, p.test); err != nil || other != got {
				t.Errorf("%s, input %v: the generic engine gives %v (%v), want %v", model, input, other, err, got)
			}
		}
	}
}

// The moments of rows that come one by one give the regression of all rows at
// once, also where a mean is millions of deviations, and of more rows than enter
// one product. About zero, the first feature's variance would keep two digits.
func TestMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, f, mean = 2*momentRows + 17, 3, 1<<24 - 1000
	weights := []float64{0.5, -2, 0.25}
	m := newMoments(f)
	target := func(row []float32) float64 {
		return 4 + 0.5*(float64(row[0])-mean) - 2*float64(row[1]) + 0.25*float64(row[2])
	}
	var x [][]float32
	for range n {
		row := []float32{float32(mean + math.Round(3*rng.NormFloat64())), float32(rng.NormFloat64()), float32(rng.NormFloat64())}
		x = append(x, row)
		m.add(row, float32(target(row)))
	}
	r, err := m.solve(t.Context(), 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	for j, w := range weights {
		// Targets are rounded to float32, by some 5e-7 each.
		if !(math.Abs(r.weights[j]-w) < 1e-6) {
			t.Errorf("weight %d is %.9f, want %g", j, r.weights[j], w)
		}
	}
	for _, row := range x[:20] {
		if got := r.predict(row); !(math.Abs(got-target(row)) < 1e-5) {
			t.Errorf("%v gives %g, want %g", row, got, target(row))
		}
	}

	same := newMoments(2)
	for i := range 10 {
		same.add([]float32{float32(i), float32(i)}, 1)
	}
	if _, err := same.solve(t.Context(), 0); !errors.Is(err, dense.ErrSingular) {
		t.Errorf("equal features without regularisation: %v, want %v", err, dense.ErrSingular)
	}
}

// modelled runs Model into a new file.
func modelled(t *testing.T, opt ModelOptions, sets ...*offline.Dataset) ([]Modelled, *Store) {
	t.Helper()
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(Modelling, 1))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Model(t.Context(), sets, opt, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	return all, st
}

func modelPlan(configurations, draws int) Plan {
	return Plan{Models: ModellingModels, Configurations: configurations, Draws: draws}
}

func TestModel(t *testing.T) {
	g := committedModelling(t)
	d := waves(g.Learn, g.Ask)
	all, st := modelled(t, ModelOptions{Plan: modelPlan(4, 2), EngineOptions: offline.EngineOptions{Threads: 1}}, d)
	var text []string
	for _, m := range all {
		text = append(text, fmt.Sprintf("%s %v %d %.4f %.4f", m.Model, m.Input, m.Selected, m.Validation, m.RMSE))
	}
	want := "eusn false 1 0.8303 0.8045 | eusn true 1 0.2476 0.3261 | esn false 1 0.5819 0.5215 | esn true 1 0.2062 0.2964 | " +
		"resn false 3 0.8303 0.8039 | resn true 0 0.2771 0.3608 | deepesn false 0 0.8303 0.8045 | deepesn true 3 0.1372 0.2277"
	if got := strings.Join(text, " | "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}

	_, other := modelled(t, ModelOptions{Plan: modelPlan(4, 2), EngineOptions: offline.EngineOptions{Threads: 3}}, d)
	same(t, "three threads", other, st)

	// Going on with more draws repeats nothing and gives what one run gives.
	again, err := Resume(st.path, NewSettings(Modelling, 1))
	if err != nil {
		t.Fatal(err)
	}
	trials := len(again.trials)
	if _, err := Model(t.Context(), []*offline.Dataset{d}, ModelOptions{Plan: modelPlan(4, 3)}, again); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if trials != 4*8 || len(again.trials) != trials || len(again.draws) != 3*8 {
		t.Errorf("resumed with %d trials: now %d and %d draws", trials, len(again.trials), len(again.draws))
	}
	if lines, err := os.ReadFile(st.path); err != nil || strings.Count(string(lines), "\n") != 2+4*8+3*8+2*8 {
		t.Errorf("%v: %d lines", err, strings.Count(string(lines), "\n"))
	}
}

func TestModelCancel(t *testing.T) {
	g := committedModelling(t)
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(Modelling, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(t.Context())
	opt := ModelOptions{Plan: modelPlan(20, 1), Progress: func(done, total int64, _ string) {
		if done > total {
			t.Errorf("%d of %d done", done, total)
		}
		if len(st.trials) > 0 {
			cancel()
		}
	}}
	opt.Threads = 1 // so that no trial is written while progress is told
	if _, err := Model(ctx, []*offline.Dataset{waves(g.Learn, g.Ask)}, opt, st); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it cancelled", err)
	}
	if n := len(st.trials); n < 1 || n > 20 {
		t.Errorf("%d trials stored", n)
	}
}

func TestModelWrongData(t *testing.T) {
	g := committedModelling(t)
	nan := float32(math.NaN())
	two := waves(g.Learn, g.Ask)
	two.Channels = []string{"x", "y"}
	two.Series = two.Series[:0:0]
	for i := range 4 {
		two.Series = append(two.Series, offline.Series{ID: fmt.Sprint(i), Split: []offline.Split{offline.Train, offline.Test}[i%2], Label: -1, Values: make([]float32, 8)})
	}
	for _, c := range []struct {
		d    *offline.Dataset
		says string
	}{
		{two, "has 2 channels, one-step-ahead modelling wants one"},
		{waves(g.Learn, nil), "0 test series"},
		{waves(g.Learn[:1], g.Ask), "1 training"},
		{waves(append([][]float32{{1}}, g.Learn...), g.Ask), `series "s0" has one sample`},
		{waves(append([][]float32{{1, nan}}, g.Learn...), g.Ask), `series "s0", sample 1, channel "x": value NaN is missing`},
		{waves(g.Learn, [][]float32{{1, 1e20}}), `value 1e+20 is out of range`},
		{&offline.Dataset{Name: "words", Classes: []string{"a"}, Series: []offline.Series{{ID: "1", Split: offline.Train, Tokens: []int32{1}}}}, "has 0 channels"},
	} {
		st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(Modelling, 1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Model(t.Context(), []*offline.Dataset{c.d}, ModelOptions{Plan: modelPlan(1, 1)}, st)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.d.Name) {
			t.Errorf("%v, want a complaint about %s with %q", err, c.d.Name, c.says)
		}
		if len(st.data) > 0 {
			t.Errorf("%s: something was stored before the complaint", c.says)
		}
		st.Close()
	}

	st := newStore("r.jsonl", NewSettings(PaperExact, 1))
	if _, err := Model(t.Context(), nil, ModelOptions{Plan: modelPlan(1, 1)}, st); err == nil || !strings.Contains(err.Error(), "paper-exact") {
		t.Errorf("a file of another protocol: %v", err)
	}
	if _, err := Run(t.Context(), []*offline.Dataset{tones(45, 12)}, Options{Plan: plan(PaperExact, 1, 1)}, newStore("r.jsonl", NewSettings(Modelling, 1))); err == nil {
		t.Error("Run continued a file of Model")
	}
	for _, p := range []Plan{{}, modelPlan(0, 1), modelPlan(101, 1), modelPlan(1, 0), {Models: []string{"gru"}, Configurations: 1, Draws: 1, Epochs: 1}} {
		if err := CheckModelling([]*offline.Dataset{waves(g.Learn, g.Ask)}, p); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}

// Odd but right input: a channel that never varies is predicted exactly; classes
// with one series divide the training part as if there were no classes; if the
// classes allow it, the division is the search's.
func TestModelOddData(t *testing.T) {
	flat := waves([][]float32{{7, 7, 7}, {7, 7}, {7, 7, 7, 7}}, [][]float32{{7, 7}})
	all, _ := modelled(t, ModelOptions{Plan: modelPlan(2, 1)}, flat)
	for _, m := range all {
		if m.RMSE > 1e-12 || m.Repeating != 0 {
			t.Errorf("a constant: %+v", m)
		}
	}

	g := committedModelling(t)
	plain := waves(g.Learn, g.Ask)
	odd := waves(g.Learn, g.Ask)
	for i := range odd.Series {
		odd.Classes = append(odd.Classes, fmt.Sprint("class", i))
		odd.Series[i].Label = i
	}
	a, _ := modelled(t, ModelOptions{Plan: modelPlan(2, 1)}, plain)
	b, _ := modelled(t, ModelOptions{Plan: modelPlan(2, 1)}, odd)
	for i := range a {
		if a[i].RMSE != b[i].RMSE || a[i].Validation != b[i].Validation {
			t.Errorf("classes of one series: %+v, want %+v", b[i], a[i])
		}
	}

	d := tones(45, 12)
	d.Channels = d.Channels[:1]
	fit, validation, err := divide(d)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newModellingProblem(d)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.fit, fit) || !reflect.DeepEqual(p.validation, validation) {
		t.Error("another division than the search's")
	}
}
