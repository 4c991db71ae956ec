package dynamics_test

import (
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/eusn-stream/eusn-stream/internal/dynamics"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// recipes returns recipes of each kind without changes to their samples.
func recipes(t *testing.T) map[string]*reservoir.Network {
	t.Helper()
	paper := func(o reservoir.PaperOptions) reservoir.Spec {
		o.Input, o.Bias, o.Seed = 1, .5, 7
		return reservoir.Paper(1, o)
	}
	bank := reservoir.EulerBank(1)
	bank.Members, bank.Units, bank.Standardize, bank.Difference, bank.Gamma = 3, 20, false, false, reservoir.Dist{Lo: .01, Hi: .5}
	mixed := reservoir.DefaultBank(1).ForLength(32)
	mixed.Members, mixed.Taps.Members, mixed.Standardize, mixed.Difference, mixed.Gamma = 16, 8, false, false, reservoir.Dist{Lo: .01, Hi: .5}
	all := map[string]*reservoir.Network{}
	for name, s := range map[string]reservoir.Spec{
		"bank": bank, "mixed": mixed,
		"eusn": paper(reservoir.PaperOptions{Units: 40, Eps: .1, Gamma: .05, Recurrent: .1}),
		"esn":  paper(reservoir.PaperOptions{Kind: reservoir.ESN, Units: 40, SpectralRadius: .9, Leak: .5}),
		"resn": paper(reservoir.PaperOptions{Kind: reservoir.RESN, Units: 15, SpectralRadius: .8, Leak: .3}),
	} {
		net, err := reservoir.Draw(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = net
	}
	return all
}

func engineOf(t *testing.T, net *reservoir.Network) reservoir.Engine {
	t.Helper()
	e, err := cpu.New(net, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// stepDerivative returns the derivative of a step at zero, from the engine: each column
// is the states after a step from a small state of one unit, without use of the members.
func stepDerivative(t *testing.T, net *reservoir.Network) *mat.Dense {
	t.Helper()
	for _, m := range net.Members {
		clear(m.Bias)
	}
	e, s := engineOf(t, net), net.Spec
	l, n := engine.LayoutOf(s), s.Members*s.Units
	// So small that tanh(z) is z with a relative error of z^2/3 < 1e-7, and float32 has 7
	// digits for it.
	const small = 1. / 1024
	j, units := mat.NewDense(n, n, nil), make([]float32, n)
	found := 0
	for w := l.First; w < l.Words; w++ {
		state := make([]uint32, l.Words)
		l.Reset(s, state)
		before := state[w]
		state[w] = math.Float32bits(small)
		l.UnitsOf(s, state, units)
		k := slices.Index(units, small)
		if state[w] = before; k < 0 {
			continue // not the state of a unit
		}
		state[w] = math.Float32bits(small)
		found++
		if err := e.WriteState(0, state); err != nil {
			t.Fatal(err)
		}
		if err := e.Advance(make([]float32, s.Channels), []reservoir.Run{{To: 1}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := e.ReadState(0, state); err != nil {
			t.Fatal(err)
		}
		l.UnitsOf(s, state, units)
		for i, h := range units {
			j.Set(i, k, float64(h)/small)
		}
	}
	if found != n {
		t.Fatalf("%d states of %d units in a row", found, n)
	}
	return j
}

// The modes are the eigenvalues of the engine's step for small states.
func TestModesAreTheEngines(t *testing.T) {
	for name, net := range recipes(t) {
		t.Run(name, func(t *testing.T) {
			got, err := dynamics.ComputeModes(net)
			if err != nil {
				t.Fatal(err)
			}
			var e mat.Eigen
			if !e.Factorize(stepDerivative(t, net), mat.EigenNone) {
				t.Fatal("no eigenvalues")
			}
			var moduli []float64
			for _, v := range e.Values(nil) {
				moduli = append(moduli, cmplx.Abs(v))
			}
			slices.Sort(moduli)
			n := len(moduli)
			if got.Count != n || math.Abs(got.Radius-moduli[n-1]) > 1e-5 { // float32 states: 6e-8 per column, and the solver's share
				t.Errorf("%d modes, radius %v, want %d and %v", got.Count, got.Radius, n, moduli[n-1])
			}
			var times []float64
			for _, m := range moduli {
				if m < 1 {
					times = append(times, -1/math.Log(m))
				}
			}
			// A modulus within 1e-5 of 1 could be on either side.
			if got.Held != n-len(times) {
				t.Errorf("%d modes are held, want %d", got.Held, n-len(times))
			}
			slices.Sort(times)
			if k := len(times); k > 0 {
				// An error of 1e-6 of a modulus near .99 is an error of 1e-4 of its
				// logarithm.
				for _, c := range []struct{ got, want float64 }{{got.Half, times[(k-1)/2]}, {got.Most, times[(k-1)*9/10]}} {
					if math.Abs(c.got/c.want-1) > 1e-3 {
						t.Errorf("samples until 1/e: %v, want %v", c.got, c.want)
					}
				}
			}
			t.Logf("%+v", got)
		})
	}
}

// Without input, a unit with taps falls to 1/e as its mode predicts.
func TestForgetting(t *testing.T) {
	net := recipes(t)["mixed"]
	for i := range net.Members {
		clear(net.Members[i].Bias)
	}
	net.Members[0].Recurrent[3] = -.02
	e, s := engineOf(t, net), net.Spec
	l, units := engine.LayoutOf(s), make([]float32, s.Members*s.Units)
	state := make([]uint32, l.Words)
	l.Reset(s, state)
	const small = 1. / 1024
	for w := l.First; ; w++ {
		before := state[w]
		state[w] = math.Float32bits(small)
		if l.UnitsOf(s, state, units); units[3] == small {
			break
		}
		state[w] = before
	}
	if err := e.WriteState(0, state); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for ; units[3] > small/math.E; steps++ {
		if err := e.Advance([]float32{0}, []reservoir.Run{{To: 1}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := e.ReadState(0, state); err != nil {
			t.Fatal(err)
		}
		l.UnitsOf(s, state, units)
	}
	if want := math.Ceil(-1 / math.Log(1-.02)); float64(steps) != want {
		t.Errorf("a unit with a leak of .02 has fallen to 1/e after %d samples, want %v", steps, want)
	}
}

func TestTooManyUnits(t *testing.T) {
	net := &reservoir.Network{Spec: reservoir.Spec{Units: dynamics.MostUnits + 1}}
	if m, err := dynamics.ComputeModes(net); err == nil {
		t.Errorf("%+v of members of %d units, want an error", m, net.Spec.Units)
	}
}

// The figures of a state compared with the same network in float64.
func TestLook(t *testing.T) {
	net := recipes(t)["bank"]
	s := net.Spec
	e, look := engineOf(t, net), dynamics.NewLook(s)
	state := make([]uint32, engine.LayoutOf(s).Words)
	var x []float32
	for i := range 60 {
		x = append(x, float32(2*math.Sin(float64(i)/3)))
	}
	if err := e.Advance(x, []reservoir.Run{{Reset: true, To: int32(len(x))}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := e.ReadState(0, state); err != nil {
		t.Fatal(err)
	}
	got := look.ComputeFigures(state)
	squares, saturated, units := 0., 0., 0.
	for _, m := range net.Members {
		h, most := make([]float64, s.Units), make([]float64, s.Units)
		for _, u := range x {
			next := make([]float64, s.Units)
			for i := range next {
				z := float64(m.Bias[i]) + float64(m.Input[i])*float64(u)
				for k := range h {
					z += float64(m.Recurrent[i*s.Units+k]) * h[k]
				}
				next[i] = float64(m.Keep)*h[i] + float64(m.Gain)*math.Tanh(z)
				most[i] = max(most[i], math.Tanh(z))
			}
			h = next
		}
		for i := range h {
			squares += h[i] * h[i]
			units++
			if most[i] >= .99 {
				saturated++
			}
		}
	}
	if saturated < 3 || saturated > units-3 {
		t.Fatalf("%v of %v units are saturated: that tests little", saturated, units)
	}
	// float32 and float64 differ by some 1e-6 after 60 samples (reservoir's
	// TestFloat64Model); a unit so close to .99 could count on either side.
	if size := math.Sqrt(squares / units); math.Abs(got.Size/size-1) > 1e-4 || math.Abs(got.Saturated-saturated/units) > 1/units {
		t.Errorf("%+v, want a size of %v and %v of %v units", got, size, saturated, units)
	}
	if n := testing.AllocsPerRun(10, func() { look.ComputeFigures(state) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// For kind mixed: no unit is saturated in silence, every unit is with huge samples.
func TestLookMixed(t *testing.T) {
	net := recipes(t)["mixed"]
	for i := range net.Members {
		clear(net.Members[i].Bias)
	}
	s := net.Spec
	e, look := engineOf(t, net), dynamics.NewLook(s)
	state, units := make([]uint32, engine.LayoutOf(s).Words), make([]float32, s.Members*s.Units)
	for _, c := range []struct{ size, saturated float64 }{{0, 0}, {1e6, 1}} {
		var x []float32
		for i := range 40 {
			x = append(x, float32(c.size*math.Pow(-1, float64(i/5))))
		}
		if err := e.Advance(x, []reservoir.Run{{Reset: true, To: int32(len(x))}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := e.ReadState(0, state); err != nil {
			t.Fatal(err)
		}
		got := look.ComputeFigures(state)
		engine.LayoutOf(s).UnitsOf(s, state, units)
		squares := 0.
		for _, h := range units {
			squares += float64(h) * float64(h)
		}
		if want := math.Sqrt(squares / float64(len(units))); got.Saturated != c.saturated || got.Size != want {
			t.Errorf("samples of %v: %+v, want %v saturated and a size of %v", c.size, got, c.saturated, want)
		}
	}
}

// A recipe with only the last state gives no saturation.
func TestLookLastAlone(t *testing.T) {
	net := recipes(t)["eusn"]
	e, s := engineOf(t, net), net.Spec
	state := make([]uint32, engine.LayoutOf(s).Words)
	if err := e.Advance([]float32{100, -3}, []reservoir.Run{{Reset: true, To: 2}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := e.ReadState(0, state); err != nil {
		t.Fatal(err)
	}
	if f := dynamics.NewLook(s).ComputeFigures(state); f.Saturated != 0 || !(f.Size > 0) {
		t.Errorf("%+v, want a size alone", f)
	}
}

// BenchmarkLook: a state of the default bank.
func BenchmarkLook(b *testing.B) {
	s := reservoir.DefaultBank(2).ForLength(256)
	state := make([]uint32, engine.LayoutOf(s).Words)
	engine.LayoutOf(s).Reset(s, state)
	state[0] = 100 // samples
	look := dynamics.NewLook(s)
	for b.Loop() {
		look.ComputeFigures(state)
	}
}
