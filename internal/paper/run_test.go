package paper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// tones is a small data set of three classes of sines on two channels, lengths 12 to 40,
// every third series with leading zeros of its own.
func tones(train, test int) *archive.Dataset {
	rng := rand.New(rand.NewPCG(2, 7))
	d := &archive.Dataset{Name: "tones", Channels: []string{"a", "b"}, Classes: []string{"high", "low", "mid"}}
	for i := range train + test {
		s := archive.Series{ID: fmt.Sprint("s", i), Split: archive.Train, Label: i % 3}
		if i >= train {
			s.Split = archive.Test
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

// smallPlan returns a small plan for the protocol.
func smallPlan(p Protocol, configurations, draws int, models ...string) Plan {
	switch p {
	case Bank:
		return Plan{Models: []string{BankModel}, Draws: draws}
	case Compare:
		return Plan{Models: []string{"euler"}, Draws: draws}
	}
	if len(models) == 0 {
		models = PaperModels
	}
	return Plan{models, configurations, draws, 3, 0}
}

// runBench runs a plan into a new file and returns its cells and results.
func runBench(t *testing.T, protocol Protocol, opt Options, sets ...*archive.Dataset) ([]Cell, *Store) {
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

// timeless returns the results without the fields that may differ between runs.
func (st *Store) timeless() (map[key]Trial, map[key]Draw) {
	trials, draws := map[key]Trial{}, map[key]Draw{}
	for k, t := range st.trials {
		t.Seconds, t.Energy = 0, energy.Used{}
		trials[k] = t
	}
	for k, d := range st.draws {
		d.Seconds, d.Energy = 0, energy.Used{}
		draws[k] = d
	}
	return trials, draws
}

func wantSame(t *testing.T, what string, got, want *Store) {
	t.Helper()
	trials, draws := got.timeless()
	wantTrials, wantDraws := want.timeless()
	if !reflect.DeepEqual(trials, wantTrials) || !reflect.DeepEqual(draws, wantDraws) {
		t.Errorf("%s: other results", what)
	}
}

// reservoirs are all untrained models of the paper's protocols.
var reservoirs = slices.Concat(PaperModels, []string{DeepESN})

// The counts of a short run of each protocol, on any machine, engine and number of
// threads. The counts change only with weights, states, split, search list or readout.
func TestExactResults(t *testing.T) {
	for _, c := range []struct {
		protocol Protocol
		want     string
	}{
		{PaperExact, "eusn 3/60 9/20 6 6 6 | esn 0/150 12/20 10 9 10 | resn 3/190 9/20 6 8 7 | deepesn 5/20 8/20 9 8 6"},
		{Best, "eusn 2/40 14/20 11 12 13 | esn 3/120 15/20 13 15 14 | resn 2/170 15/20 13 13 13 | deepesn 4/70 15/20 9 8 8"},
	} {
		cells, st := runBench(t, c.protocol, Options{Plan: smallPlan(c.protocol, 8, 3, reservoirs...)}, tones(60, 15))
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
	for _, protocol := range append(slices.Clone(Protocols), Compare) {
		do := smallPlan(protocol, 3, 1, reservoirs...)
		_, want := runBench(t, protocol, Options{Plan: do, EngineOptions: offline.EngineOptions{Threads: 1}}, tones(45, 12))
		_, got := runBench(t, protocol, Options{Plan: do, EngineOptions: offline.EngineOptions{Threads: 3}}, tones(45, 12))
		wantSame(t, fmt.Sprintf("%s on 3 threads", protocol), got, want)
		if testing.Short() {
			continue // engines do not race; all cases run without the detector
		}
		generic := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
		}
		_, got = runBench(t, protocol, Options{Plan: do, EngineOptions: offline.EngineOptions{NewEngine: generic}}, tones(45, 12))
		wantSame(t, fmt.Sprintf("%s on the generic engine", protocol), got, want)
	}
}

// withPrefixes calls each with data sets whose series have the same prefix: zeros, padded
// or their own, or another sample. The first series consists only of the prefix.
func withPrefixes(t *testing.T, each func(pad bool, p *problem)) {
	for _, c := range []struct {
		pad   bool
		first []float32
	}{
		{true, []float32{0, 0}},
		{false, []float32{0, 0}},
		{false, []float32{.5, float32(math.Copysign(0, -1))}},
	} {
		d := tones(240, 15)
		d.Series[0].Values = make([]float32, 2*8)
		for _, s := range d.Series {
			for i := 0; i < len(s.Values) && s.Values[i] == 0; i++ {
				s.Values[i] = c.first[i%2]
			}
		}
		p, err := newProblem(d, c.pad)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(p.first, c.first, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatalf("series are said to share %v, want %v", p.first, c.first)
		}
		each(c.pad, p)
	}
}

// Every series' state equals the state of a separate run from its first sample, including
// shared prefixes and padding.
func TestSharedBeginningsChangeNoBit(t *testing.T) {
	withPrefixes(t, func(pad bool, p *problem) {
		series := slices.Concat(p.train, p.test)
		if !p.isWorthSharing(series) {
			t.Fatal("the test's series share too little")
		}
		net, err := reservoir.Draw(reservoir.Paper(2, reservoir.PaperOptions{Units: 20, Eps: 0.1, Gamma: 0.01, Recurrent: 1, Input: 1, Bias: 1}))
		if err != nil {
			t.Fatal(err)
		}
		e, err := cpu.New(net, len(series)+1, cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.runSeries(t.Context(), e, series); err != nil {
			t.Fatal(err)
		}
		alone, err := cpu.New(net, 1, cpu.Options{Kind: cpu.Generic})
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]float32, 20), make([]float32, 20)
		for k, i := range series {
			values := p.inputs[p.from[i]*2 : p.to[i]*2]
			if pad && len(values) != 2*(p.to[0]-p.from[0]) {
				t.Fatal("padded series differ in length")
			}
			err := errors.Join(alone.Advance(values, []reservoir.Run{{Reset: true, To: int32(len(values) / 2)}}, nil), alone.Features(0, want), e.Features(int32(k), got))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("pad %v: series %d has another state", pad, i)
			}
		}
	})
}

// A canceled run keeps finished results.
func TestCancel(t *testing.T) {
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(PaperExact, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(t.Context())
	opt := Options{Plan: smallPlan(PaperExact, 30, 1, "eusn"), Progress: func(int64, int64, string) {
		if len(st.trials) > 0 {
			cancel()
		}
	}}
	opt.Threads = 1 // so that no trial is written during a progress report
	if _, err := Run(ctx, []*archive.Dataset{tones(45, 12)}, opt, st); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it canceled", err)
	}
	if n := len(st.trials); n < 1 || n > 29 {
		t.Errorf("%d trials stored", n)
	}
}
