//go:build linux && cgo

package gpu

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/gpu/internal/testing/cudatest"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// stableNetwork is a network whose rounding errors do not grow.
func stableNetwork(t testing.TB, precision reservoir.Precision) *reservoir.Network {
	t.Helper()
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 3, Members: 1, Units: 40, Seed: 5, Precision: precision,
		Features: []reservoir.Feature{reservoir.Last}, Eps: reservoir.Fixed(.01), Recurrent: reservoir.Fixed(.1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.1),
	})
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// productsLimit is twice the largest |h - h'| / |h'| measured against the
// canonical states, 2.9e-7, mostly the error of the canonical states
// (gpu/internal/kernels measures both against float64).
const productsLimit = 6e-7

// TestProducts runs the tensor-core kernels through host, driver and
// interpreter: with the self-test, in pieces, with a state handed over, and with
// scores that are the features' own.
func TestProducts(t *testing.T) {
	cudatest.Use(t, cudatest.Interpreter())
	checkProducts(t)
}

// TestRealGPUProducts is TestProducts on this machine's own GPU.
func TestRealGPUProducts(t *testing.T) {
	if os.Getenv("EUSN_REAL_GPU") == "" {
		t.Skip("NOT CHECKED: runs on a real GPU only: EUSN_REAL_GPU=1 go test -run RealGPU ./gpu")
	}
	checkProducts(t)
}

func checkProducts(t *testing.T) {
	for _, c := range []struct {
		products   Products
		precision  reservoir.Precision
		name, bits string
	}{{TF32x3, reservoir.Float32, "gpu-3xtf32", "3xtf32-sm"}, {TF32x2, reservoir.TF32, "gpu-2xtf32", "2xtf32-sm"}} {
		net := stableNetwork(t, c.precision)
		open := func() *Engine {
			e, err := newEngine(net, 6, Options{Products: c.products}, limits{samples: 200, runs: 3, scores: 100, window: 1 << 10}, true)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e, other := open(), open()
		g, err := cpu.New(net, 6, cpu.Options{Kind: cpu.Generic})
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != c.name || !strings.HasPrefix(e.Arithmetic(), c.bits) || g.Arithmetic() != reservoir.Canonical {
			t.Errorf("engine %s of arithmetic %s, want %s, %s; generic %s", e.Name(), e.Arithmetic(), c.name, c.bits, g.Arithmetic())
		}
		rng := rand.New(rand.NewPCG(1, 9))
		const samples = 12
		inputs := make([]float32, 6*samples*3)
		for i := range inputs {
			inputs[i] = float32(rng.NormFloat64())
		}
		var whole, first, second []reservoir.Run
		for i := range int32(6) {
			from, to := i*samples, (i+1)*samples-i
			whole = append(whole, reservoir.Run{Slot: i, From: from, To: to, Emit: true})
			first = append(first, reservoir.Run{Slot: i, From: from, To: from + 5})
			second = append(second, reservoir.Run{Slot: i, From: from + 5, To: to, Emit: true})
		}
		linear := testReadout(net.Spec.FeatureCount())
		scores := make([]float32, 6*linear.Columns())
		again := slices.Clone(scores)
		for _, x := range []reservoir.Engine{g, e, other} {
			if err := x.SetReadouts([]*readout.Linear{linear}); err != nil {
				t.Fatal(err)
			}
		}
		l := engine.LayoutOf(net.Spec)
		want, got, handed := make([]uint32, l.Words), make([]uint32, l.Words), make([]uint32, l.Words)
		if err := errors.Join(g.Advance(inputs, whole, scores), e.Advance(inputs, whole, scores), other.Advance(inputs, first, nil)); err != nil {
			t.Fatal(err)
		}
		for slot := range int32(6) { // states are as portable as any
			if err := errors.Join(other.ReadState(slot, handed), other.WriteState(slot, handed)); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.Advance(inputs, second, again); err != nil {
			t.Fatal(err)
		}
		if !sameBits(scores, again) {
			t.Errorf("%s: scores differ when a call is cut in two", c.name)
		}
		largest, equal := 0.0, true
		for slot := range int32(6) {
			if err := errors.Join(g.ReadState(slot, want), e.ReadState(slot, got), other.ReadState(slot, handed)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, handed) {
				t.Errorf("%s: state %d differs when a call is cut in two", c.name, slot)
			}
			equal = equal && slices.Equal(want, got)
			d, norm := 0.0, 0.0
			for i := l.Member(0) + l.State; i < l.Member(0)+l.State+40; i++ {
				a, b := float64(math.Float32frombits(want[i])), float64(math.Float32frombits(got[i]))
				d, norm = d+(a-b)*(a-b), norm+a*a
			}
			largest = max(largest, math.Sqrt(d/norm))
		}
		t.Logf("%s: largest relative difference from the canonical states %.3g", c.name, largest)
		if largest > productsLimit || equal {
			t.Errorf("%s: difference %.3g, want at most %.3g and not the canonical bits", c.name, largest, productsLimit)
		}
		for _, x := range []reservoir.Engine{g, e, other} {
			x.Close()
		}
	}
}

// TestProductsSelfTest: canonical kernels are near enough; kernels that drop
// the low part of every weight are not.
func TestProductsSelfTest(t *testing.T) {
	f := cudatest.Use(t, nil)
	net, coarse := stableNetwork(t, reservoir.Float32), stableNetwork(t, reservoir.Float32)
	m := coarse.Members[0]
	for _, v := range [][]float32{m.Recurrent, m.Input} {
		for i := range v {
			v[i] = math.Float32frombits(math.Float32bits(v[i]) &^ (1<<13 - 1))
		}
	}
	for _, c := range []struct {
		net  *reservoir.Network
		want error
	}{{coarse, ErrSelfTest}, {net, nil}} {
		w, err := newTwin(c.net)
		if err != nil {
			t.Fatal(err)
		}
		f.Run(w)
		e, err := newEngine(net, 4, Options{Products: TF32x3}, small, true)
		if !errors.Is(err, c.want) {
			t.Errorf("error %v, want %v", err, c.want)
		}
		if err == nil {
			e.Close()
		}
	}
}

func TestProductsRefused(t *testing.T) {
	cudatest.Use(t, nil)
	for _, p := range []Products{TF32x2, 9} {
		e, err := newEngine(stableNetwork(t, reservoir.Float32), 4, Options{Products: p}, small, true)
		if err == nil {
			e.Close()
		}
		if p == TF32x2 && (!errors.Is(err, ErrTF32) || !strings.Contains(err.Error(), `precision "tf32"`)) || err == nil {
			t.Errorf("products %d: %v", p, err)
		}
	}
}

// TestSkipLost: the successor of a lost engine goes to another device, and to
// no device after all are lost.
func TestSkipLost(t *testing.T) {
	lostDevices.by = nil
	t.Cleanup(func() { lostDevices.by = nil })
	f := cudatest.Use(t, nil)
	f.Set("devices", 2)
	net := testNetwork(t)
	w, err := newTwin(net)
	if err != nil {
		t.Fatal(err)
	}
	f.Run(w)
	for _, want := range []string{"Fake GPU 0", "Fake GPU 1"} {
		e, err := newEngine(net, 4, Options{SkipLost: true}, small, false)
		if err != nil {
			t.Fatal(err)
		}
		if e.Device() != want {
			t.Errorf("engine on %s, want %s", e.Device(), want)
		}
		f.Set("fail_launch", f.Count("launches")+1)
		if err := e.Advance(make([]float32, 8), []reservoir.Run{{To: 4}}, nil); !errors.Is(err, reservoir.ErrLost) {
			t.Errorf("error %v, want ErrLost", err)
		}
		e.Close()
	}
	var u *UnavailableError
	if _, err := newEngine(net, 4, Options{SkipLost: true}, small, false); !errors.As(err, &u) || !strings.Contains(err.Error(), "every one has failed") {
		t.Errorf("error %v, want UnavailableError", err)
	}
	if e, err := newEngine(net, 4, Options{}, small, false); err != nil {
		t.Errorf("a lost device cannot be tried again: %v", err)
	} else {
		e.Close()
	}
}
