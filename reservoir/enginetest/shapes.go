package enginetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// shapes runs random ragged calls over many shapes.
func shapes(t *testing.T, open New) {
	specs := map[string]reservoir.Spec{}
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 50, 100, 127, 200, 255, 1024} {
		specs[fmt.Sprintf("eusn/%d", n)] = single(reservoir.EuSN, 1+n%6, n)
	}
	for _, x := range []int{1, 2, 3, 4, 5, 9, 16, 17, 33, 64} {
		specs[fmt.Sprintf("inputs/%d", x)] = single(reservoir.EuSN, x, 10)
		specs[fmt.Sprintf("bank/inputs/%d", x)] = bank(x, 3, 6)
	}
	for _, n := range []int{1, 2, 5, 16, 50, 101} {
		specs[fmt.Sprintf("esn/%d", n)] = single(reservoir.ESN, 2, n)
		specs[fmt.Sprintf("resn/%d", n)] = single(reservoir.RESN, 2, n)
		specs[fmt.Sprintf("bank/%d", n)] = bank(2, 4, n)
	}
	for _, f := range reservoir.AllFeatures {
		s := bank(2, 2, 9)
		s.Features = []reservoir.Feature{f}
		specs["feature/"+string(f)] = s
	}
	s := bank(2, 3, 12)
	s.Features = []reservoir.Feature{reservoir.Std, reservoir.Last}
	specs["features out of order"] = s
	s = bank(1, 2, 20)
	s.Precision = reservoir.TF32
	specs["tf32"] = s
	s = bank(3, 2, 8)
	s.Standardise = false
	specs["difference only"] = s
	s = bank(3, 2, 8)
	s.Difference = false
	specs["standardise only"] = s
	s = single(reservoir.EuSN, 2, 8)
	s.Bias, s.Input = reservoir.Fixed(0), reservoir.Fixed(0)
	specs["all zero"] = s
	for name, s := range specs {
		rows := 40
		if s.Units > 500 { // the plain reference takes 5 ms a sample
			rows = 6
		}
		t.Run(name, func(t *testing.T) { Random(t, open, s, 1, 6, rows) })
	}
}

// Random drives an engine of recipe s through calls random ragged calls of
// about rows rows each, over several slots with resets and emits, and compares
// every score, row and feature vector with the reference. Fuzz tests of an
// engine may call it with shapes of their own.
func Random(t *testing.T, open New, s reservoir.Spec, seed uint64, calls, rows int) {
	t.Helper()
	net := draw(t, s)
	rng := rand.New(rand.NewPCG(seed, 99))
	const slots = 7
	e := start(t, open, net, slots)
	hs := []*readout.Linear{randomHead(rng, "a", 2, s.FeatureCount()), randomHead(rng, "b", 5, s.FeatureCount())}
	if err := e.SetHeads(hs); err != nil {
		t.Fatal(err)
	}
	refs := make([]*reference, slots)
	for i := range refs {
		refs[i] = newReference(net)
	}
	for call := range calls {
		inputs := randomInputs(rng, rows*s.Channels)
		runs := randomRuns(rng, slots, rows)
		scores := make([]float32, len(runs)*e.ScoreWidth())
		if err := e.Advance(inputs, runs, scores); err != nil {
			t.Fatal(err)
		}
		at := 0
		for i, r := range runs {
			if r.Reset {
				refs[r.Slot] = newReference(net)
			}
			for k := r.From; k < r.To; k++ {
				refs[r.Slot].step(inputs[int(k)*s.Channels : (int(k)+1)*s.Channels])
			}
			if !r.Emit {
				continue
			}
			want := expectedScores(hs, refs[r.Slot].features())
			equal(t, fmt.Sprintf("call %d, run %d: scores", call, i), scores[at:at+len(want)], want)
			at += len(want)
		}
	}
	for i, ref := range refs {
		checkSlot(t, e, i, ref)
	}
}
