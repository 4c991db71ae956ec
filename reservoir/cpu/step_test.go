package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestUpdateIsNotLeaky: h + eps*f, not (1-eps)h + eps*f. From a large state
// and with saturated units the two differ by eps*h, far above rounding.
func TestUpdateIsNotLeaky(t *testing.T) {
	net := mustDraw(t, paperSpec(8, 1, .25, .01, 1))
	g, err := newGeneric(net, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := engine.LayoutOf(net.Spec)
	state := make([]uint32, l.Words)
	for i := range 8 {
		state[l.State+l.First+i] = math.Float32bits(100)
	}
	if err := g.WriteState(0, state); err != nil {
		t.Fatal(err)
	}
	if err := g.Advance([]float32{0}, []reservoir.Run{{To: 1}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := g.ReadState(0, state); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		h := float64(math.Float32frombits(state[l.First+l.State+i]))
		if math.Abs(h-100) > .25*(1+1e-6) { // |eps*tanh| <= eps
			t.Fatalf("unit %d went from 100 to %v in one step of eps .25: the update leaks", i, h)
		}
		if h == 100 {
			t.Fatalf("unit %d did not move", i)
		}
	}
}

// TestFloat64Model: the float32 engine stays close to the same equations in
// float64 with math.Tanh if the map is not chaotic.
func TestFloat64Model(t *testing.T) {
	for _, c := range []struct {
		name      string
		spec      reservoir.Spec
		steps     int
		tolerance float64
	}{
		// Rounding adds about 1e-7 per step and the neutral map keeps it:
		// sqrt(1000) * 1e-7 = 3e-6 (this test logs 4.7e-7). Larger recurrent
		// weights spread it (5.1e-6); the bound is ten times that.
		{"eps .01, recurrent .1", paperSpec(100, 6, .01, .001, .1), 1000, 3e-6},
		{"eps .01, recurrent 1", paperSpec(100, 6, .01, .001, 1), 1000, 5e-5},
		{"esn", func() reservoir.Spec {
			s := paperSpec(50, 2, 0, 0, 0)
			s.Kind, s.Eps, s.Gamma, s.Recurrent = reservoir.ESN, reservoir.Dist{}, reservoir.Dist{}, reservoir.Dist{}
			s.SpectralRadius, s.Leak = reservoir.Fixed(.9), reservoir.Fixed(.5)
			return s
		}(), 1000, 3e-6},
	} {
		t.Run(c.name, func(t *testing.T) {
			net := mustDraw(t, c.spec)
			g, err := newGeneric(net, 1)
			if err != nil {
				t.Fatal(err)
			}
			in := make([]float32, c.steps*c.spec.Channels)
			rng := rand.New(rand.NewPCG(77, 0))
			for i := range in {
				in[i] = float32(2*rng.Float64() - 1)
			}
			if err := g.Advance(in, []reservoir.Run{{To: int32(c.steps)}}, nil); err != nil {
				t.Fatal(err)
			}
			f := make([]float32, c.spec.Units)
			if err := g.Features(0, f); err != nil {
				t.Fatal(err)
			}
			h := float64States(net, in)
			diff, norm := 0.0, 0.0
			for i := range h {
				diff += (h[i] - float64(f[i])) * (h[i] - float64(f[i]))
				norm += h[i] * h[i]
			}
			e := math.Sqrt(diff / norm)
			if e > c.tolerance || e == 0 {
				t.Errorf("relative error %.3g after %d steps, want below %.3g and not 0", e, c.steps, c.tolerance)
			}
			t.Logf("relative error %.3g after %d steps", e, c.steps)
		})
	}
}

func float64States(net *reservoir.Network, in []float32) []float64 {
	m, n, x := net.Members[0], net.Spec.Units, net.Spec.Channels
	h, next := make([]float64, n), make([]float64, n)
	for t := 0; t < len(in); t += x {
		for i := range n {
			z := float64(m.Bias[i])
			for c := range x {
				z += float64(m.Input[i*x+c]) * float64(in[t+c])
			}
			for k := range n {
				z += float64(m.Recurrent[i*n+k]) * h[k]
			}
			next[i] = float64(m.Keep)*h[i] + float64(m.Gain)*math.Tanh(z)
		}
		h, next = next, h
	}
	return h
}

// paperSpec is the paper's network: one member, fixed scales, last state.
func paperSpec(units, channels int, eps, gamma, recurrent float64) reservoir.Spec {
	return reservoir.Spec{Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: channels, Members: 1, Units: units, Seed: 3, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last}, Eps: reservoir.Fixed(eps), Gamma: reservoir.Fixed(gamma), Recurrent: reservoir.Fixed(recurrent), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.5)}
}

func mustDraw(t *testing.T, s reservoir.Spec) *reservoir.Network {
	t.Helper()
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// TestSpoiledNetworks: each engine refuses a network that Validate refuses.
func TestSpoiledNetworks(t *testing.T) {
	for what, spoil := range map[string]func(*reservoir.Network){
		"a scale too few":       func(n *reservoir.Network) { n.Norm.Scale = n.Norm.Scale[1:] },
		"a weight not finite":   func(n *reservoir.Network) { n.Members[0].Recurrent[5] = float32(math.NaN()) },
		"an input out of range": func(n *reservoir.Network) { n.Members[0].Inputs = []int32{0, 1, 7} },
		"a recurrent row less":  func(n *reservoir.Network) { n.Members[0].Recurrent = n.Members[0].Recurrent[:4] },
		"a bias without a unit": func(n *reservoir.Network) { n.Members[0].Bias = append(n.Members[0].Bias, 0) },
		"no units in the spec":  func(n *reservoir.Network) { n.Spec.Units = 0 },
	} {
		for _, kind := range Kinds(reservoir.Spec{}) {
			net := mustDraw(t, paperSpec(4, 3, .1, .01, 1))
			spoil(net)
			if e, err := New(net, 1, Options{Kind: kind, Threads: 1}); err == nil {
				e.Close()
				t.Errorf("%s: the %s engine accepted it", what, kind)
			}
		}
	}
}
