package paper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// clicks counts one more joule at every reading, and fails after some readings.
type clicks struct {
	n, most atomic.Int64
	still   bool
}

func (c *clicks) Source() string { return "clicks" }
func (c *clicks) Joules() (float64, error) {
	n := c.n.Add(1)
	switch {
	case c.still:
		return 7, nil
	case c.most.Load() > 0 && n > c.most.Load():
		return 0, errors.New("the counter is gone")
	}
	return float64(n), nil
}

// meteredOptions are options with a counter.
func meteredOptions(t *testing.T, p Plan, threads int, c *clicks) Options {
	t.Helper()
	a, err := energy.NewAccount(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return Options{Plan: p, EngineOptions: offline.EngineOptions{Threads: threads}, Energy: energy.Accounts{CPU: a}, Idle: time.Millisecond}
}

// resume continues a file.
func resume(t *testing.T, path string, protocol Protocol, opt Options, d *archive.Dataset) ([]Cell, *Store) {
	t.Helper()
	st, err := Resume(path, NewSettings(protocol, 1))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := Run(t.Context(), []*archive.Dataset{d}, opt, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	return cells, st
}

// sumEnergy sums the energy of a model's lines in a file, trials and draws.
func sumEnergy(t *testing.T, path, model string) (trials, draws, metering float64) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r struct {
			Metering *struct{ CPU struct{ Source string } }
			Trial    *struct {
				Model  string
				Energy struct{ CPU struct{ Wh float64 } }
			}
			Draw *struct {
				Model  string
				Energy struct{ CPU struct{ Wh float64 } }
			}
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Metering != nil && r.Metering.CPU.Source == "clicks":
			metering++
		case r.Trial != nil && r.Trial.Model == model:
			trials += r.Trial.Energy.CPU.Wh
		case r.Draw != nil && r.Draw.Model == model:
			draws += r.Draw.Energy.CPU.Wh
		}
	}
	return trials, draws, metering
}

// A cell's energy is the sum over its trials and draws, under every protocol and after
// interruptions, and the measurement changes no result.
func TestEnergy(t *testing.T) {
	d := tones(24, 6)
	for _, c := range []struct {
		protocol Protocol
		plan     Plan
	}{
		{PaperExact, Plan{[]string{"eusn", "resn", "rnn"}, 3, 2, 2, 0}},
		{Best, Plan{[]string{"esn", "gru"}, 2, 2, 1, 0}},
		{Bank, smallPlan(Bank, 0, 2)},
	} {
		opt := meteredOptions(t, c.plan, 3, &clicks{})
		_, want := runBench(t, c.protocol, Options{Plan: c.plan}, d)
		cells, st := runBench(t, c.protocol, opt, d)
		wantSame(t, fmt.Sprintf("%s, energy measured", c.protocol), st, want)
		check := func(what string, cells []Cell, path string, runs float64) {
			t.Helper()
			for _, cell := range cells {
				trials, draws, metering := sumEnergy(t, path, cell.Model)
				search, mean := cell.SearchEnergy.CPU, cell.Energy.CPU
				if mean == nil || math.Abs(mean.Gross-draws/2) > 1e-12 || draws <= 0 || metering != runs ||
					c.protocol != Bank && (search == nil || math.Abs(search.Gross-trials) > 1e-12 || trials <= 0) || c.protocol == Bank && search != nil {
					t.Errorf("%s, %s, %s: search %+v, draw %+v; lines add up to %g and 2 x %g, metering %g times", c.protocol, what, cell.Model, search, mean, trials, draws/2, metering)
				}
			}
		}
		check("at once", cells, st.path, 1)
		truncate(t, st.path, 5, 7) // settings, data, metering, two trials or draws
		again, more := resume(t, st.path, c.protocol, meteredOptions(t, c.plan, 1, &clicks{}), d)
		wantSame(t, fmt.Sprintf("%s, interrupted", c.protocol), more, want)
		runs := 2.
		if c.protocol == Bank {
			runs = 1 // both draws were finished
		}
		check("interrupted", again, st.path, runs)
		before, _ := os.ReadFile(st.path)
		resume(t, st.path, c.protocol, meteredOptions(t, c.plan, 1, &clicks{}), d)
		if after, _ := os.ReadFile(st.path); !bytes.Equal(before, after) {
			t.Errorf("%s: resuming what is finished changed the file", c.protocol)
		}
	}
}

// A cost that was not measured, in whole or in part, is absent and never 0.
func TestEnergyNotMeasured(t *testing.T) {
	d, p := tones(24, 6), Plan{[]string{"eusn"}, 4, 2, 0, 0}
	_, want := runBench(t, PaperExact, Options{Plan: p}, d)
	text, _ := os.ReadFile(want.path)
	if strings.Contains(string(text), "energy") || strings.Contains(string(text), "metering") {
		t.Errorf("energy without a counter:\n%s", text)
	}

	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	truncate(t, path, 4, 0) // two trials stay, without measurements
	cells, st := resume(t, path, PaperExact, meteredOptions(t, p, 1, &clicks{}), d)
	wantSame(t, "the rest measured", st, want)
	if c := cells[0]; c.SearchEnergy.CPU != nil || c.Energy.CPU == nil {
		t.Errorf("search %+v, draws %+v, want those of the draws alone", c.SearchEnergy.CPU, c.Energy.CPU)
	}

	failing := &clicks{}
	failing.most.Store(9) // opening, idle, two trials and one reading of the third trial
	cells, st = runBench(t, PaperExact, meteredOptions(t, p, 1, failing), d)
	wantSame(t, "a counter that fails", st, want)
	measured := 0
	for _, trial := range st.trials {
		if trial.Energy.CPU != nil {
			measured++
		}
	}
	if c := cells[0]; c.SearchEnergy.CPU != nil || c.Energy.CPU != nil || measured == 0 || measured == len(st.trials) {
		t.Errorf("search %+v, draws %+v, %d trials measured", c.SearchEnergy.CPU, c.Energy.CPU, measured)
	}

	cells, _ = runBench(t, PaperExact, meteredOptions(t, p, 1, &clicks{still: true}), d)
	if c := cells[0]; c.SearchEnergy.CPU != nil || c.Energy.CPU != nil {
		t.Errorf("a counter that does not move gave %+v, %+v", c.SearchEnergy.CPU, c.Energy.CPU)
	}
}

// The table has columns of energy if a cell has energy.
func TestEnergyInTable(t *testing.T) {
	st := newStore("", NewSettings(PaperExact, 1))
	cells := []Cell{{Dataset: "a", Model: "eusn"}, {Dataset: "a", Model: "arnn", Missing: "no time"}}
	table := func() string {
		t.Helper()
		var b strings.Builder
		if err := WriteTable(&b, st, cells); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if s := table(); strings.Contains(s, "Wh") || !strings.Contains(s, "no result") || !strings.Contains(s, "no time") {
		t.Errorf("table\n%s", s)
	}
	cells = append(cells, Cell{Dataset: "b", Model: "eusn",
		SearchEnergy: energy.Used{CPU: &energy.Amount{Gross: 12.345, AboveIdle: 5}}, Energy: energy.Used{CPU: &energy.Amount{Gross: 0.00123456, AboveIdle: -0.5}}})
	s := table()
	for _, want := range []string{"CPU search Wh", "CPU Wh a draw", "12.3 (5)", "0.00123 (-0.5)", "not measured"} {
		if !strings.Contains(s, want) {
			t.Errorf("the table lacks %q:\n%s", want, s)
		}
	}
	if strings.Contains(s, "GPU") {
		t.Errorf("a column of nothing:\n%s", s)
	}
}
