//go:build linux && cgo

package gpu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels"
	"github.com/eusn-stream/eusn-stream/gpu/internal/testing/cudatest"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// testNetwork is a small bank with everything switched on.
func testNetwork(t testing.TB) *reservoir.Network {
	t.Helper()
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 2, Members: 2, Units: 6, Seed: 3, Precision: reservoir.Float32,
		Standardize: true, Difference: true, Features: reservoir.AllFeatures,
		Eps: reservoir.Fixed(.1), Gamma: reservoir.Fixed(.01), Recurrent: reservoir.Fixed(1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.1),
	})
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// mixedNetwork is a small network of kind mixed: tap and recurrent members, the
// kernels of the recipe "standard".
func mixedNetwork(t testing.TB) *reservoir.Network {
	t.Helper()
	s, err := reservoir.Bank("standard", 2)
	if err != nil {
		t.Fatal(err)
	}
	s.Members, s.Taps.Members, s.Taps.MaxLag = 16, 8, 30
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

func TestUnavailable(t *testing.T) {
	f := cudatest.Use(t, nil)
	check := func(name string, kind cuda.Kind, words ...string) {
		t.Helper()
		_, err := New(testNetwork(t), 4, Options{})
		_, again := Devices()
		var u *UnavailableError
		for _, err := range []error{err, again} {
			if !errors.As(err, &u) || !errors.Is(err, kind) {
				t.Errorf("%s: %v, want an UnavailableError of kind %q", name, err, kind)
				continue
			}
			for _, w := range words {
				if !strings.Contains(err.Error(), w) || strings.Count(err.Error(), "\n") > 0 {
					t.Errorf("%s: %q, want one sentence with %q", name, err, w)
				}
			}
		}
	}
	f.Set("devices", 0)
	check("no device", cuda.NoDevice, "no usable NVIDIA GPU")
	f.Set("devices", 1)
	f.Set("driver", 10020)
	check("old driver", cuda.OldDriver, "too old", "10.2")
	f.Set("driver", 12040)
	f.Set("major", 7)
	check("old device", cuda.NoDevice, "Fake GPU 0 has compute capability 7.0, want 8.0")
	saved := cuda.Library
	defer func() { cuda.Library = saved }()
	cuda.Library = "/nonexistent/libcuda.so.1"
	check("no driver", cuda.NoDriver, "install", "libcuda.so.1")
}

// TestOutOfMemory fails every allocation once. Nothing leaks, and an engine
// without room for new readouts continues with its old readouts.
func TestOutOfMemory(t *testing.T) {
	t.Run("eusn", func(t *testing.T) { outOfMemory(t, testNetwork(t)) })
	t.Run("mixed", func(t *testing.T) { outOfMemory(t, mixedNetwork(t)) })
}

func outOfMemory(t *testing.T, net *reservoir.Network) {
	f := cudatest.Use(t, nil)
	for k := 1; ; k++ {
		f.Set("oom_at", f.Count("created")+k)
		e, err := openTwin(f, net, 4, small)
		if err == nil {
			e.Close()
			if k < 15 {
				t.Errorf("only %d allocations could fail, want at least 15", k-1)
			}
			break
		}
		if !errors.Is(err, ErrMemory) || errors.Is(err, reservoir.ErrLost) {
			t.Errorf("allocation %d: %v, want ErrMemory", k, err)
		}
	}
	f.Set("oom_at", 0)
	e, err := openTwin(f, net, 4, small)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	inputs, run := []float32{1, 2, 3, 4}, []reservoir.Run{{To: 2, Reset: true, Emit: true}}
	scores := func() []float32 {
		s := make([]float32, e.ScoreWidth())
		if err := e.Advance(inputs, run, s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	readouts := []*readout.Linear{testReadout(net.Spec.FeatureCount())}
	if err := e.SetReadouts(readouts); err != nil {
		t.Fatal(err)
	}
	want := scores()
	f.Set("oom_at", f.Count("created")+1)
	more := *readouts[0]
	more.Name = "other"
	if err := e.SetReadouts([]*readout.Linear{&more, readouts[0]}); !errors.Is(err, ErrMemory) {
		t.Fatalf("readouts without room: %v, want ErrMemory", err)
	}
	if got := scores(); !slices.Equal(got, want) {
		t.Errorf("scores %v after refused readouts, want %v", got, want)
	}
}

// TestReadoutsReplaced: old readouts free their memory.
func TestReadoutsReplaced(t *testing.T) {
	f := cudatest.Use(t, nil)
	net := testNetwork(t)
	e, err := openTwin(f, net, 4, small)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	readouts := []*readout.Linear{testReadout(net.Spec.FeatureCount())}
	without := f.Count("used0")
	with := 0
	for i := range 5 {
		if err := e.SetReadouts(readouts); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			with = f.Count("used0")
		}
		if n := f.Count("used0"); n != with || n == without {
			t.Errorf("readouts set %d times: %d bytes in use, want %d", i+1, n, with)
		}
	}
	if err := e.SetReadouts(nil); err != nil {
		t.Fatal(err)
	}
	if n := f.Count("used0"); n != without {
		t.Errorf("without readouts: %d bytes in use, want %d", n, without)
	}
}

// TestLost: each kernel that fails during a call makes the engine lost, and
// nothing leaks.
func TestLost(t *testing.T) {
	f := cudatest.Use(t, nil)
	net := testNetwork(t)
	inputs := make([]float32, 2*400)
	runs := []reservoir.Run{{To: 400}, {Slot: 1, To: 40}, {Slot: 0, To: 7}}
	for k := 1; ; k += 3 {
		e, err := openTwin(f, net, 4, small)
		if err != nil {
			t.Fatal(err)
		}
		f.Set("fail_launch", f.Count("launches")+k)
		err = e.Advance(inputs, runs, nil)
		if err == nil {
			e.Close()
			if k < 20 {
				t.Errorf("only %d launches could fail, want at least 20", k)
			}
			break
		}
		state := make([]uint32, e.layout.Words)
		for what, err := range map[string]error{
			"Advance": err, "Advance again": e.Advance(inputs, runs, nil), "ReadState": e.ReadState(0, state),
			"WriteState": e.WriteState(0, state), "Features": e.Features(0, make([]float32, net.Spec.FeatureCount())), "SetReadouts": e.SetReadouts(nil),
		} {
			if !errors.Is(err, reservoir.ErrLost) || !strings.Contains(err.Error(), "Fake GPU 0") || !strings.Contains(err.Error(), "719") {
				t.Errorf("launch %d, %s: %v, want a loss of Fake GPU 0 by error 719", k, what, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Errorf("closing a lost engine: %v", err)
		}
	}
}

// wrong is a device with a wrong kernel eusn_finish.
type wrong struct{ twin }

func (w wrong) Load(ptx string) (cudatest.Module, error) { return w, nil }

func (w wrong) Launch(name string, grid, block [3]uint32, shared int, params []byte) error {
	err := w.twin.Launch(name, grid, block, shared, params)
	if name == "eusn_finish" {
		a := (*kernels.Args)(unsafe.Pointer(&params[0]))
		valuesAt[uint32](w.twin, a.Rows, int(a.Shape.RowWords))[a.Shape.First] ^= 1 << 31 // the sign of a state
	}
	return err
}

func TestSelfTest(t *testing.T) {
	f := cudatest.Use(t, nil)
	net := testNetwork(t)
	w, err := newTwin(net)
	if err != nil {
		t.Fatal(err)
	}
	f.Run(wrong{w})
	if _, err := newEngine(net, 4, Options{}, small, true); !errors.Is(err, ErrSelfTest) || !strings.Contains(err.Error(), "Fake GPU 0") {
		t.Errorf("error %v, want ErrSelfTest", err)
	}
	f.Run(w)
	e, err := newEngine(net, 4, Options{}, small, true)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	reset, state := make([]uint32, e.layout.Words), make([]uint32, e.layout.Words)
	e.layout.Reset(net.Spec, reset)
	for slot := range int32(e.Slots()) {
		if err := e.ReadState(slot, state); err != nil || !slices.Equal(state, reset) || e.Steps(slot) != 0 {
			t.Errorf("slot %d is not reset after the self-test (%v)", slot, err)
		}
	}
	launches := f.Count("launches")
	again, err := newEngine(net, 4, Options{}, small, true)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n := f.Count("launches"); n != launches {
		t.Errorf("a second engine of the same network was tested again: %d launches", n-launches)
	}
}

// spoilt is the interpreter with one wrong kernel.
type spoilt struct {
	cudatest.Runner
	kernel, old, new string
}

func (s spoilt) Load(text string) (cudatest.Module, error) {
	at := strings.Index(text, ".entry "+s.kernel+"(")
	if at < 0 || !strings.Contains(text[at:], s.old) {
		return nil, fmt.Errorf("%s has no %s", s.kernel, s.old)
	}
	return s.Runner.Load(text[:at] + strings.Replace(text[at:], s.old, s.new, 1))
}

// TestMixedSelfTest: the embedded kernels of kind mixed pass, and leave all
// states reset; each kernel that computes wrongly fails.
func TestMixedSelfTest(t *testing.T) {
	net := mixedNetwork(t)
	for _, kernel := range []struct{ name, old, new string }{
		{"eusn_mixed_taps_6", "add.rn.f32", "sub.rn.f32"},
		{"eusn_mixed_recurrent", "add.rn.f32", "sub.rn.f32"},
		{"eusn_mixed_finish", "rem.u32", "div.u32"},
		{"eusn_mixed_scores", "div.rn.f32", "mul.rn.f32"},
	} {
		t.Run(kernel.name, func(t *testing.T) {
			cudatest.Use(t, spoilt{cudatest.Interpreter(), kernel.name, kernel.old, kernel.new})
			if _, err := newEngine(net, 4, Options{}, defaultLimits, true); !errors.Is(err, ErrSelfTest) {
				t.Errorf("%v, want ErrSelfTest", err)
			}
		})
	}
	cudatest.Use(t, cudatest.Interpreter())
	e, err := newEngine(net, 4, Options{}, defaultLimits, true)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	reset, state := make([]uint32, e.layout.Words), make([]uint32, e.layout.Words)
	e.layout.Reset(net.Spec, reset)
	for slot := range int32(e.Slots()) {
		if err := e.ReadState(slot, state); err != nil || !slices.Equal(state, reset) {
			t.Errorf("slot %d is not reset after the self-test (%v)", slot, err)
		}
	}
}

func TestPool(t *testing.T) {
	f := cudatest.Use(t, nil)
	f.Set("memory", 128<<20)
	net := testNetwork(t)
	w, err := newTwin(net)
	if err != nil {
		t.Fatal(err)
	}
	f.Run(w)
	state := 4 * engine.LayoutOf(net.Spec).Words
	open := func(slots, most int) *Engine {
		t.Helper()
		e, err := newEngine(net, slots, Options{MaxSlots: most}, small, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	for _, c := range []struct{ ask, most, low, high int }{
		{10, 0, 10, 10}, {10, 500, 500, 500}, {10, 1 << 28, (24 << 20) / state, (32 << 20) / state},
	} {
		e := open(c.ask, c.most)
		if n := e.Slots(); n < c.low || n > c.high {
			t.Errorf("asked for %d slots and up to %d: got %d, want %d to %d", c.ask, c.most, n, c.low, c.high)
		}
		last := e.Slots() - 1 // checks that the last slot exists
		if err := e.Advance([]float32{1, 1}, []reservoir.Run{{Slot: int32(last), To: 1}}, nil); err != nil {
			t.Fatal(err)
		}
		e.Close()
	}
	var m *MemoryError
	if _, err := New(net, 1<<30, Options{}); !errors.As(err, &m) || !errors.Is(err, ErrMemory) || m.Room < 1000 || !strings.Contains(err.Error(), "128 MiB free") {
		t.Errorf("error %v, want a MemoryError that says what would fit", err)
	}
}

// TestSpread: engines use the device with most free memory.
func TestSpread(t *testing.T) {
	f := cudatest.Use(t, twin{Memory: new(cudatest.Memory)})
	f.Set("devices", 3)
	var names []string
	for range 4 {
		e, err := newEngine(testNetwork(t), 1000, Options{}, small, false)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		names = append(names, e.Device())
	}
	if want := []string{"Fake GPU 0", "Fake GPU 1", "Fake GPU 2", "Fake GPU 0"}; !slices.Equal(names, want) {
		t.Errorf("engines on %v, want %v", names, want)
	}
	list, err := Devices()
	if err != nil || len(list) != 3 || list[2].Name != "Fake GPU 2" || list[2].Capability != "9.0" || list[2].DriverVersion != "12.4" {
		t.Errorf("devices %+v (%v)", list, err)
	}
}

// TestStates mixes reads, writes and calls in every order and compares with the
// generic engine.
func TestStates(t *testing.T) {
	f := cudatest.Use(t, nil)
	net := testNetwork(t)
	const slots = 23
	for _, l := range []limits{small, {samples: 1 << 12, runs: 100, scores: 1 << 10, window: 8 * 4 * engine.LayoutOf(net.Spec).Words}} {
		e, err := openTwin(f, net, slots, l)
		if err != nil {
			t.Fatal(err)
		}
		g, err := cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		state, want := make([]uint32, e.layout.Words), make([]uint32, e.layout.Words)
		for range 3000 {
			slot := int32(rng.IntN(slots))
			switch rng.IntN(5) {
			case 0:
				inputs := []float32{rng.Float32(), rng.Float32()}
				runs := []reservoir.Run{{Slot: slot, To: 1}, {Slot: int32(rng.IntN(slots)), Reset: rng.IntN(4) == 0, To: 1}}
				if err := errors.Join(g.Advance(inputs, runs, nil), e.Advance(inputs, runs, nil)); err != nil {
					t.Fatal(err)
				}
			case 1, 2:
				from := int32(rng.IntN(slots))
				if err := errors.Join(g.ReadState(from, state), g.WriteState(slot, state), e.WriteState(slot, state)); err != nil {
					t.Fatal(err)
				}
			default:
				if err := errors.Join(g.ReadState(slot, want), e.ReadState(slot, state)); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(state, want) {
					t.Fatalf("state %d differs", slot)
				}
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStateCopies: the states that a call changed are read together, whatever
// their slots, and written states leave together; neighbors share a copy.
func TestStateCopies(t *testing.T) {
	f := cudatest.Use(t, nil)
	net := testNetwork(t)
	e, err := openTwin(f, net, 4096, limits{1 << 12, 100, 1 << 10, 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	state := make([]uint32, e.layout.Words)
	for _, c := range []struct{ apart, operations int }{{1, 2}, {60, 64 + 64}} {
		var runs []reservoir.Run
		for i := range 64 {
			runs = append(runs, reservoir.Run{Slot: int32(i * c.apart), To: 1})
		}
		if err := e.Advance([]float32{1, 2}, runs, nil); err != nil {
			t.Fatal(err)
		}
		operations, waits := f.Count("submitted"), f.Count("waits")
		for _, r := range runs {
			if err := e.ReadState(r.Slot, state); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range runs {
			if err := e.WriteState(r.Slot, state); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Advance([]float32{1, 2}, nil, nil); err != nil {
			t.Fatal(err)
		}
		operations, waits = f.Count("submitted")-operations, f.Count("waits")-waits
		if operations != c.operations || waits != 2 {
			t.Errorf("64 states %d apart, read and written: %d operations and %d waits, want %d and 2", c.apart, operations, waits, c.operations)
		}
	}
}
