package enginetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func startEngine(t testing.TB, open New, net *reservoir.Network, slots int) reservoir.Engine {
	t.Helper()
	e, err := open(net, slots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

func expectedScores(hs []*readout.Linear, f []float32) []float32 {
	var all []float32
	for _, h := range hs {
		s := make([]float32, h.Columns())
		h.Scores(s, f)
		all = append(all, s...)
	}
	return all
}

// expectedJudgment returns the scores of the detectors for features, in order.
func expectedJudgment(detectors []*novelty.Detector, f []float32) (all []float32) {
	for _, d := range detectors {
		z, inputs := slices.Clone(f), make([]float32, d.InputValues())
		all = append(all, d.Score(z))
		d.ReadInputs(inputs, z)
		all = append(all, inputs...)
	}
	return all
}

func checkSlot(t *testing.T, e reservoir.Engine, slot int32, ref reference) {
	t.Helper()
	s := e.Network().Spec
	state := make([]uint32, engine.LayoutOf(s).Words)
	if err := e.ReadState(slot, state); err != nil {
		t.Fatal(err)
	}
	if want := ref.words(); !slices.Equal(state, want) {
		for w := range state {
			if state[w] != want[w] {
				t.Fatalf("slot %d, word %d of %d: %#x (%v), want %#x (%v)", slot, w, len(state), state[w], math.Float32frombits(state[w]), want[w], math.Float32frombits(want[w]))
			}
		}
	}
	f := make([]float32, s.FeatureCount())
	if err := e.Features(slot, f); err != nil {
		t.Fatal(err)
	}
	equalBits(t, fmt.Sprintf("slot %d: features", slot), f, ref.features())
}

// equalBits compares bits.
func equalBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %x, want %x", what, i, got[i], want[i])
		}
	}
}
