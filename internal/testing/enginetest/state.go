package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// testStates: a state read from one engine continues in another.
func testStates(t *testing.T, open New) {
	s := bankSpec(3, 2, 9)
	net := drawNetwork(t, s)
	rng := rand.New(rand.NewPCG(5, 5))
	a, b := startEngine(t, open, net, 3), startEngine(t, open, net, 5)
	inputs := randomInputs(rng, 90*3)
	ref := newReference(net)
	for k := range 90 {
		ref.step(inputs[3*k : 3*k+3])
	}
	state := make([]uint32, engine.LayoutOf(s).Words)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(a.Advance(inputs[:40*3], []reservoir.Run{{Slot: 2, To: 40}}, nil))
	ok(a.ReadState(2, state))
	ok(b.WriteState(4, state))
	ok(b.Advance(inputs[40*3:], []reservoir.Run{{Slot: 4, To: 50}}, nil))
	checkSlot(t, b, 4, ref)

	l := engine.LayoutOf(s)
	for name, spoil := range map[string]func(r []uint32) []uint32{
		"long":       func(r []uint32) []uint32 { return append(r, 0) },
		"last word":  func(r []uint32) []uint32 { r[len(r)-1] = 0x7f800000; return r },
		"last count": func(r []uint32) []uint32 { r[l.Member(1)+l.Positive+s.Units-1] = 51; return r },
		"short":      func(r []uint32) []uint32 { return r[1:] },
		"NaN state":  func(r []uint32) []uint32 { r[l.Member(1)+l.State] = 0x7fc00000; return r },
		"Inf sample": func(r []uint32) []uint32 { r[l.Previous] = 0xff800000; return r },
		"count":      func(r []uint32) []uint32 { r[l.Member(0)+l.Positive] = 1 << 30; return r },
		"steps":      func(r []uint32) []uint32 { r[1] = 1; return r },
	} {
		if err := b.WriteState(4, spoil(slices.Clone(state))); err == nil {
			t.Errorf("a state with a wrong %s was taken", name)
		}
	}
	checkSlot(t, b, 4, ref)
}

// testReadouts: several readouts on one state, swapped without changing the state.
func testReadouts(t *testing.T, open New) {
	s := bankSpec(2, 2, 7)
	net := drawNetwork(t, s)
	e := startEngine(t, open, net, 2)
	rng := rand.New(rand.NewPCG(7, 7))
	inputs := randomInputs(rng, 24)
	ref := newReference(net)
	for at, classes := range [][]int{{2}, {3, 2, 40}, nil, {2, 2}} {
		var hs []*readout.Linear
		for i, c := range classes {
			random := randomReadout
			if i%2 == 1 {
				random = limitedReadout
			}
			hs = append(hs, random(rng, fmt.Sprint(i), c, s.FeatureCount()))
		}
		if err := e.SetReadouts(hs); err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			ref.step(inputs[(3*at+k)*2 : (3*at+k+1)*2])
		}
		scores := make([]float32, e.ScoreWidth())
		if err := e.Advance(inputs, []reservoir.Run{{Slot: 1, From: int32(3 * at), To: int32(3*at + 3), Emit: true}}, scores); err != nil {
			t.Fatal(err)
		}
		equalBits(t, fmt.Sprintf("readouts %v", classes), scores, expectedScores(hs, ref.features()))
	}
	checkSlot(t, e, 1, ref)
}
