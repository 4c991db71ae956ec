package cpu

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestMixedEngines: an engine without support for the network reports an error, and auto selects a
// suitable engine.
func TestMixedEngines(t *testing.T) {
	for _, activation := range []reservoir.Activation{reservoir.Cubic, reservoir.Tanh} {
		s := smallMixed()
		s.Taps.Activation = activation
		n, err := reservoir.Draw(s)
		if err != nil {
			t.Fatal(err)
		}
		able := Kinds(s)
		if activation == reservoir.Tanh && len(able) > 1 {
			t.Errorf("engines %v run a tanh, want generic alone", able)
		}
		for _, kind := range append(Kinds(reservoir.Spec{}), "auto") {
			if activation == reservoir.Cubic && !slices.Contains(append(able, "auto"), kind) {
				t.Errorf("the %s engine has no kernels of kind mixed", kind)
			}
			e, err := New(n, 1, Options{Kind: kind, Threads: 1})
			if kind != "auto" && !slices.Contains(able, kind) {
				if want := "the " + string(kind) + " engine cannot run this network of kind mixed"; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("engine %s: %v, want an error with %q", kind, err, want)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.ReplaceAll(string(kind), "auto", string(able[0])); e.Name() != want {
				t.Errorf("engine %s is %s, want %s", kind, e.Name(), want)
			}
			e.Close()
		}
	}
	if got, want := Kinds(reservoir.EulerBank(1)), Kinds(reservoir.Spec{}); !slices.Equal(got, want) {
		t.Errorf("of the other kinds engines %v, want %v", got, want)
	}
}

// TestMixedStatesAreAligned: the blocks of every state of a pool are whole cache
// lines, which is a third of the AVX2 engine's speed.
func TestMixedStatesAreAligned(t *testing.T) {
	n, err := reservoir.Draw(smallMixed())
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGeneric(n, 5)
	if err != nil {
		t.Fatal(err)
	}
	for slot := range int32(5) {
		for b := range 2 {
			if at := uintptr(unsafe.Pointer(&g.state(slot)[g.layout.First+b*engine.BlockWords])); at%64 != 0 {
				t.Errorf("slot %d, block %d begins at byte %d of a cache line", slot, b, at%64)
			}
		}
	}
}

// smallMixed is a recipe of kind mixed with both kinds of members.
func smallMixed() reservoir.Spec {
	return reservoir.Spec{
		Arithmetic: reservoir.MixedArithmetic, Kind: reservoir.Mixed, Channels: 3, Members: 16, Units: 16, Seed: 9, Precision: reservoir.Float32,
		Standardize: true, Difference: true, Subset: 9, Features: slices.Clone(reservoir.MixedFeatures),
		Gamma: reservoir.Dist{Lo: 3e-4, Hi: .5}, EpsRho: reservoir.Dist{Lo: 1e-2, Hi: .3}, Input: reservoir.Dist{Lo: .03, Hi: 3}, Bias: reservoir.Dist{Lo: .03, Hi: 3},
		Taps: reservoir.Taps{Members: 8, Count: 3, MaxLag: 5, Activation: reservoir.Cubic},
	}
}
