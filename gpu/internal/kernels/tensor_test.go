package kernels

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/testing/ptx"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// tensorCases are measured against float64. The regime is stable (eps *
// spectral radius about 0.02); in an unstable regime any two float32 runs
// diverge.
var tensorCases = []struct {
	name      string
	precision reservoir.Precision
	products  Products
}{{"3xTF32", reservoir.Float32, TF32x3}, {"2xTF32", reservoir.TF32, TF32x2}}

// tensorLimit is about twice the largest measured |h - h64| / |h64| of a
// stream: 1.4e-7 in both modes, where the canonical arithmetic has 2.0e-7.
// Without a low part the value is 2e-4.
const tensorLimit = 3e-7

// TestTensorError measures the states of the tensor-core kernels, and of the
// canonical arithmetic, against float64.
func TestTensorError(t *testing.T) {
	m, err := module()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range tensorCases {
		got, canonical, err := tensorError([]*ptx.Module{m}, i, 25)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: largest relative error %.3g, canonical float32 %.3g", c.name, got, canonical)
		if got > tensorLimit || got == canonical {
			t.Errorf("%s: error %.3g, want at most %.3g and not the canonical states", c.name, got, tensorLimit)
		}
	}
}

// tensorError advances 20 streams by a number of samples and returns the largest
// error of a stream's state.
func tensorError(modules []*ptx.Module, index, samples int) (got, canonical float64, err error) {
	const streams = 20
	c := tensorCases[index]
	s := eusn(reservoir.EuSN, 5, 140)
	s.Precision, s.Eps, s.Recurrent = c.precision, reservoir.Fixed(.01), reservoir.Fixed(.1)
	net, err := reservoir.Draw(s)
	if err != nil {
		return 0, 0, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	inputs := make([]float32, streams*samples*s.Channels)
	for i := range inputs {
		inputs[i] = float32(rng.NormFloat64())
	}
	var runs []reservoir.Run
	for i := range streams {
		runs = append(runs, reservoir.Run{Slot: int32(i), From: int32(i * samples), To: int32((i + 1) * samples)})
	}
	e, err := tensorEngine(modules, net, streams, c.products)
	if err != nil {
		return 0, 0, err
	}
	g, err := cpu.New(net, streams, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		return 0, 0, err
	}
	if err := errorOf(e.Advance(inputs, runs, nil), g.Advance(inputs, runs, nil)); err != nil {
		return 0, 0, err
	}
	exact := exactStates(net, inputs, streams, samples)
	return worst(e, exact), worst(g, exact), nil
}

func tensorEngine(modules []*ptx.Module, net *reservoir.Network, slots int, products Products) (*ptxEngine, error) {
	p, err := NewApproximate(net, h200, products)
	if err != nil {
		return nil, err
	}
	return newEngineOf(modules, net, slots, slots, p)
}

// exactStates is the step of the package documentation of reservoir in float64.
func exactStates(net *reservoir.Network, inputs []float32, streams, samples int) [][]float64 {
	n, c, m := net.Spec.Units, net.Spec.Channels, net.Members[0]
	all := make([][]float64, streams)
	for k := range all {
		h, next := make([]float64, n), make([]float64, n)
		for t := range samples {
			x := inputs[(k*samples+t)*c:]
			for i := range n {
				z := float64(m.Bias[i])
				for j := range m.Inputs {
					z += float64(m.Input[i*c+j]) * float64(x[j])
				}
				for j, v := range h {
					z += float64(m.Recurrent[i*n+j]) * v
				}
				next[i] = float64(m.Keep)*h[i] + float64(m.Gain)*math.Tanh(z)
			}
			h, next = next, h
		}
		all[k] = h
	}
	return all
}

func worst(e reservoir.Engine, exact [][]float64) float64 {
	l := engine.LayoutOf(e.Network().Spec)
	state := make([]uint32, l.Words)
	largest := 0.0
	for slot, want := range exact {
		if err := e.ReadState(int32(slot), state); err != nil {
			panic(err)
		}
		d, norm := 0.0, 0.0
		for i, v := range want {
			h := float64(math.Float32frombits(state[l.Member(0)+l.State+i]))
			d += (h - v) * (h - v)
			norm += v * v
		}
		largest = max(largest, math.Sqrt(d/norm))
	}
	return largest
}

// TestTensorBank: everything but the sums is the canonical code: counts,
// accumulators, resets and scores follow from the states. Inputs and weights
// are chosen so that no sum rounds, in any order: then all bits are equal.
func TestTensorBank(t *testing.T) {
	m, err := module()
	if err != nil {
		t.Fatal(err)
	}
	s := bank(2, 2, 37)
	s.Precision, s.Standardize = reservoir.TF32, false
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	for r := range net.Members {
		m := &net.Members[r]
		m.Keep, m.Gain = 0, 1
		for _, v := range [][]float32{m.Recurrent, m.Input, m.Bias} {
			for i := range v {
				v[i] = float32(i%3-1) / 4
			}
		}
		clear(m.Recurrent) // states are tanh values: their products would round
	}
	net.Norm.Diff = []float32{1, 1}
	for _, products := range []Products{TF32x3, TF32x2} {
		rng := rand.New(rand.NewPCG(2, 2))
		g, err := cpu.New(net, shapeSlots, cpu.Options{Kind: cpu.Generic})
		if err != nil {
			t.Fatal(err)
		}
		e, err := tensorEngine([]*ptx.Module{m}, net, shapeSlots, products)
		if err != nil {
			t.Fatal(err)
		}
		readouts := randomReadouts(rng, s.FeatureCount(), []int{2, 9})
		if err := errorOf(g.SetReadouts(readouts), e.SetReadouts(readouts)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, runs := (&shape{spec: s}).call(rng, 0)
			states := int32(0)
			for _, r := range runs {
				states = max(states, r.To)
			}
			inputs := make([]float32, int(states)*s.Channels)
			for i := range inputs {
				inputs[i] = float32(rng.IntN(9)-4) / 8
			}
			a, b := make([]float32, len(runs)*g.ScoreWidth()), make([]float32, len(runs)*g.ScoreWidth())
			if err := errorOf(g.Advance(inputs, runs, a), e.Advance(inputs, runs, b), sameStates(g, e)); err != nil {
				t.Fatal(err)
			}
			for i := range a {
				if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
					t.Fatalf("score %d is %x, generic has %x", i, b[i], a[i])
				}
			}
		}
		for name := range e.kinds {
			if strings.Contains(name, "resident") || strings.Contains(name, "streamed") {
				t.Errorf("launched %s", name)
			}
		}
	}
}

func TestTensorRefusals(t *testing.T) {
	ring, err := reservoir.Draw(eusn(reservoir.RESN, 2, 9))
	if err != nil {
		t.Fatal(err)
	}
	full, err := reservoir.Draw(eusn(reservoir.EuSN, 2, 9))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		net      *reservoir.Network
		products Products
		want     string
	}{{ring, TF32x3, "ring"}, {full, TF32x2, "no TF32 number"}, {full, 7, "products 7"}} {
		if _, err := NewApproximate(c.net, h200, c.products); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("products %d: %v, want %q", c.products, err, c.want)
		}
	}
}
