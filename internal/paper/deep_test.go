package paper

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

func openAuto(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return cpu.New(net, slots, cpu.Options{Threads: 1})
}

func openGeneric(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
}

// lastStates returns the last states of the listed series, a row each.
func lastStates(t *testing.T, p *problem, specs []reservoir.Spec, open openEngine, series, lead []int) [][]float32 {
	t.Helper()
	last := make([][]float32, len(series))
	seen := make([]int, len(series))
	err := p.walk(t.Context(), specs, open, series, lead, func(step int, live []int, states []float32) error {
		for n, k := range live {
			if step != seen[k] {
				return errors.New("a sample is out of turn")
			}
			seen[k]++
			last[k] = slices.Clone(states[n*countStates(specs):][:countStates(specs)])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range series {
		want := p.to[i] - p.from[i]
		if lead != nil {
			want -= lead[k]
		}
		if seen[k] != want {
			t.Errorf("series %d: %d of %d samples", i, seen[k], want)
		}
	}
	return last
}

var deepScales = Scales{Units: 31, Leak: 0.3, SpectralRadius: 0.9, Input: 1, Bias: 0.1, Seed: 5}

// A DeepESN of one layer equals the ESN: weights, states, readouts and answers.
func TestOneLayerIsESN(t *testing.T) {
	for _, pad := range []bool{true, false} {
		p, err := newProblem(tones(240, 15), pad)
		if err != nil {
			t.Fatal(err)
		}
		c := deepScales
		c.Layers = 1
		deep, plain := specs(DeepESN, p.channels, c), specs("esn", p.channels, deepScales)
		if len(deep) != 1 || len(plain) != 1 {
			t.Fatalf("%d and %d networks", len(deep), len(plain))
		}
		series := slices.Concat(p.validation, p.test)
		net, err := reservoir.Draw(plain[0])
		if err != nil {
			t.Fatal(err)
		}
		e, err := openAuto(net, len(series)+1)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := p.runSeries(t.Context(), e, series); err != nil {
			t.Fatal(err)
		}
		want := make([]float32, c.Units)
		for k, got := range lastStates(t, p, deep, openAuto, series, nil) {
			if err := e.Features(int32(k), want); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("pad %v: series %d has another state", pad, series[k])
			}
		}
		s := NewSettings(PaperExact, 1)
		a, err := p.assess(t.Context(), plain, openAuto, s.final(p))
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.assessDeep(t.Context(), deep, openAuto, s.final(p))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) || a.correct == 0 {
			t.Errorf("pad %v: one layer gives %+v, the ESN %+v", pad, b, a)
		}
	}
}

// A common prefix of series is computed once and changes no bit, also for a series that
// consists only of the prefix.
func TestSharedBeginningsOfLayers(t *testing.T) {
	withPrefixes(t, func(pad bool, p *problem) {
		c := deepScales
		c.Layers = 3
		list := specs(DeepESN, p.channels, c)
		series := slices.Concat(p.train, p.test)
		lead := p.leads(series)
		if slices.Max(lead) == 0 || lead[0] != p.to[0]-p.from[0]-1 {
			t.Fatal("the test's series share too little")
		}
		got := lastStates(t, p, list, openAuto, series, lead)
		for k, want := range lastStates(t, p, list, openGeneric, series, nil) {
			if !slices.Equal(got[k], want) {
				t.Errorf("pad %v: series %d has another state", pad, series[k])
			}
		}
	})
}

// Layers follow their equation in float64; the states are the same for every engine.
func TestLayers(t *testing.T) {
	p, err := newProblem(tones(75, 15), false)
	if err != nil {
		t.Fatal(err)
	}
	c := deepScales
	c.Layers = 3
	list := specs(DeepESN, p.channels, c)
	var units []int
	for _, s := range list {
		units = append(units, s.Units)
	}
	if !slices.Equal(units, []int{11, 10, 10}) || countStates(list) != 31 {
		t.Fatalf("layers of %v units, want the first to have what is left over of 31", units)
	}
	series := slices.Concat(p.train, p.test)
	got := lastStates(t, p, list, openAuto, series, nil)
	for k, other := range lastStates(t, p, list, openGeneric, series, nil) {
		if !slices.Equal(got[k], other) {
			t.Fatalf("series %d: engines differ", series[k])
		}
	}

	var nets []*reservoir.Network
	for _, s := range list {
		net, err := reservoir.Draw(s)
		if err != nil {
			t.Fatal(err)
		}
		nets = append(nets, net)
	}
	if slices.Equal(nets[1].Members[0].Recurrent, nets[2].Members[0].Recurrent) {
		t.Error("two layers have the same weights")
	}
	worst := 0.0
	for k, i := range series {
		var want []float64
		h := [][]float64{make([]float64, 11), make([]float64, 10), make([]float64, 10)}
		for row := p.from[i]; row < p.to[i]; row++ {
			var x []float64
			for _, v := range p.inputs[row*p.channels : (row+1)*p.channels] {
				x = append(x, float64(v))
			}
			want = nil
			for l, net := range nets {
				h[l] = leakyStep(net.Members[0], h[l], x)
				x, want = h[l], append(want, h[l]...)
			}
		}
		for j, v := range want {
			worst = max(worst, math.Abs(v-float64(got[k][j])))
		}
	}
	// Leaky ESNs of radius .9 forget: only the rounding of some tens of float32 sums of
	// some 20 terms below 1, of three layers, remains.
	if worst > 1e-5 || worst == 0 {
		t.Errorf("states differ by up to %g from float64's", worst)
	}
	t.Logf("largest difference from float64: %.2g", worst)
}

// leakyStep is a step of a leaky ESN.
func leakyStep(m reservoir.Member, h, x []float64) []float64 {
	next := make([]float64, len(h))
	for i := range h {
		z := float64(m.Bias[i])
		for c, v := range x {
			z += float64(m.Input[i*len(x)+c]) * v
		}
		for k, v := range h {
			z += float64(m.Recurrent[i*len(h)+k]) * v
		}
		next[i] = float64(m.Keep)*h[i] + float64(m.Gain)*math.Tanh(z)
	}
	return next
}

func TestTableSaysLayers(t *testing.T) {
	st := newStore("", NewSettings(PaperExact, 1))
	var text strings.Builder
	c := Cell{Dataset: "tones", Model: DeepESN, Config: Scales{Units: 31, Layers: 3}, Validation: Share{1, 2}}
	if err := WriteTable(&text, st, []Cell{c}); err != nil || !strings.Contains(text.String(), "31 in 3 layers") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}
