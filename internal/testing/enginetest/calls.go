package enginetest

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// testComposition: the same samples of each slot, at least length, split into calls in
// different ways, leave the same states.
func testComposition(t *testing.T, open New, length int, specs ...reservoir.Spec) {
	for _, s := range specs {
		net := drawNetwork(t, s)
		rng := rand.New(rand.NewPCG(3, 3))
		const slots = 67
		data := make([][]float32, slots)
		for i := range data {
			data[i] = randomInputs(rng, (length+i%7)*s.Channels)
		}
		var first [][]uint32
		for _, way := range []struct{ streams, samples int }{{1, 1}, {1, 1000}, {slots, 1}, {slots, 1000}, {16, 5}, {33, 3}} {
			e := startEngine(t, open, net, slots)
			feedSlots(t, e, data, way.streams, way.samples)
			states := make([][]uint32, slots)
			for i := range states {
				states[i] = make([]uint32, engine.LayoutOf(s).Words)
				if err := e.ReadState(int32(i), states[i]); err != nil {
					t.Fatal(err)
				}
			}
			if first == nil {
				first = states
			}
			for i := range states {
				if !slices.Equal(states[i], first[i]) {
					t.Fatalf("%s: %d streams by %d samples a call: slot %d differs from one sample a call", s.Kind, way.streams, way.samples, i)
				}
			}
		}
	}
}

// feedSlots feeds every slot its data, at most streams slots and samples of each per
// call.
func feedSlots(t *testing.T, e reservoir.Engine, data [][]float32, streams, samples int) {
	t.Helper()
	c := e.Network().Spec.Channels
	for from := 0; from < len(data); from += streams {
		group := data[from:min(from+streams, len(data))]
		for at, more := 0, true; more; at += samples {
			more = false
			var inputs []float32
			var runs []reservoir.Run
			for i, d := range group {
				lo, hi := min(at*c, len(d)), min((at+samples)*c, len(d))
				runs = append(runs, reservoir.Run{Slot: int32(from + i), From: int32(len(inputs) / c), To: int32((len(inputs) + hi - lo) / c)})
				inputs = append(inputs, d[lo:hi]...)
				more = more || hi < len(d)
			}
			if err := e.Advance(inputs, runs, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// longRun spans many folds of the two-level sums.
func longRun(t *testing.T, open New) {
	s := bankSpec(1, 2, 5)
	net := drawNetwork(t, s)
	e := startEngine(t, open, net, 2)
	rng := rand.New(rand.NewPCG(4, 4))
	ref := newReference(net)
	inputs := randomInputs(rng, 10_000)
	for i := range inputs {
		ref.step(inputs[i : i+1])
	}
	for at := 0; at < len(inputs); {
		n := min(1+rng.IntN(700), len(inputs)-at)
		if err := e.Advance(inputs[at:at+n], []reservoir.Run{{Slot: 1, To: int32(n)}}, nil); err != nil {
			t.Fatal(err)
		}
		at += n
	}
	checkSlot(t, e, 1, ref)
}

// testFolds: streams of different lengths in one call, each with its fold of the
// two-level sums at another sample, or soon after its end.
func testFolds(t *testing.T, open New) {
	s := bankSpec(1, 2, 3)
	net := drawNetwork(t, s)
	const slots = 19
	e := startEngine(t, open, net, slots)
	rng := rand.New(rand.NewPCG(10, 10))
	refs := make([]reference, slots)
	for i := range refs {
		refs[i] = newReference(net)
	}
	for range 12 {
		var runs []reservoir.Run
		samples := 0
		for i := range slots {
			n := 1 + rng.IntN(90)
			runs = append(runs, reservoir.Run{Slot: int32(i), From: int32(samples), To: int32(samples + n)})
			samples += n
		}
		inputs := randomInputs(rng, samples)
		if err := e.Advance(inputs, runs, nil); err != nil {
			t.Fatal(err)
		}
		for i, r := range runs {
			for k := r.From; k < r.To; k++ {
				refs[i].step(inputs[k : k+1])
			}
			checkSlot(t, e, int32(i), refs[i])
		}
	}
}

// testRoundings: sums of a product and a number that lie close to the middle of two
// float32 numbers, so that rounding first to float64 gives a wrong result; for one unit
// in four at a time, from an input and from a state.
func testRoundings(t *testing.T, open New) {
	const units = 19
	s := singleSpec(reservoir.EuSN, 1, units)
	s.Gamma = reservoir.Fixed(0)
	const tiny = 1. / (1 << 23)
	sum, a, b := float32(1+tiny)/16, float32(1+tiny)/(1<<14), float32(1-tiny)/(1<<14)
	if twice := float32(float64(sum) + float64(a)*float64(b)); twice == canon.FMA(a, b, sum) {
		t.Fatal("this case tells nothing: rounded twice it is the same")
	}
	for way := range 8 {
		from, first := way%2, way/2
		net := drawNetwork(t, s)
		m := &net.Members[0]
		clear(m.Recurrent)
		clear(m.Input)
		net.Norm.Mean[0], net.Norm.Scale[0] = 0, 1
		m.Gain = 1
		ref, input := newPaperReference(net), float32(0)
		for i := range units {
			m.Bias[i] = sum
			if i%4 != first {
				continue
			}
			if from == 0 {
				m.Input[i] = a
			} else {
				m.Recurrent[i*units] = a
			}
		}
		if from == 0 {
			input = b
		} else {
			ref.members[0].h[0] = b
		}
		e := startEngine(t, open, net, 1)
		if err := e.WriteState(0, ref.words()); err != nil {
			t.Fatal(err)
		}
		if err := e.Advance([]float32{input}, []reservoir.Run{{To: 1}}, nil); err != nil {
			t.Fatal(err)
		}
		ref.step([]float32{input})
		checkSlot(t, e, 0, ref)
	}
}

// longestSequence: a sequence ends at MaxSteps samples and not earlier. The features are
// numbers for long and short sequences.
func longestSequence(t *testing.T, open New) {
	s := bankSpec(1, 2, 5)
	e := startEngine(t, open, drawNetwork(t, s), 1)
	state := make([]uint32, engine.LayoutOf(s).Words)
	advance := func(samples int32, reset bool) error {
		inputs := randomInputs(rand.New(rand.NewPCG(9, 9)), int(samples))
		return e.Advance(inputs, []reservoir.Run{{To: samples, Reset: reset}}, nil)
	}
	check := func(err error, allowed bool, steps uint64) {
		t.Helper()
		if (err == nil) != allowed {
			t.Fatalf("%v, want the call taken: %v", err, allowed)
		}
		if err := e.ReadState(0, state); err != nil {
			t.Fatal(err)
		}
		if got := engine.LayoutOf(s).Steps(state); got != steps {
			t.Fatalf("the state counts %d samples, want %d", got, steps)
		}
	}
	check(advance(1, false), true, 1)
	state[0] = uint32(reservoir.MaxSteps - 3)
	check(e.WriteState(0, state), true, reservoir.MaxSteps-3)
	check(advance(4, false), false, reservoir.MaxSteps-3)
	check(advance(3, false), true, reservoir.MaxSteps)
	check(advance(1, false), false, reservoir.MaxSteps)

	l := engine.LayoutOf(s)
	for i, positive := range []uint32{0, 1 << 24, 1<<31 - 1, 1 << 31, reservoir.MaxSteps} {
		state[l.Member(1)+l.Positive+i] = positive
	}
	check(e.WriteState(0, state), true, reservoir.MaxSteps)
	want, got := make([]float32, s.FeatureCount()), make([]float32, s.FeatureCount())
	l.FeaturesOf(s, state, want)
	if err := e.Features(0, got); err != nil {
		t.Fatal(err)
	}
	equalBits(t, "features", got, want)
	check(advance(2, true), true, 2)
}

// testRefusals: every bad call is refused before any state changes.
func testRefusals(t *testing.T, open New) {
	s := bankSpec(2, 2, 5)
	net := drawNetwork(t, s)
	e := startEngine(t, open, net, 3)
	rng := rand.New(rand.NewPCG(6, 6))
	if err := e.SetReadouts([]*readout.Linear{randomReadout(rng, "h", 3, s.FeatureCount())}); err != nil {
		t.Fatal(err)
	}
	inputs := randomInputs(rng, 20)
	ref := newReference(net)
	for k := range 10 {
		ref.step(inputs[2*k : 2*k+2])
	}
	if err := e.Advance(inputs, []reservoir.Run{{Slot: 1, To: 10}}, nil); err != nil {
		t.Fatal(err)
	}
	with := func(v float32) []float32 {
		in := slices.Clone(inputs)
		in[13] = v
		return in
	}
	run := reservoir.Run{Slot: 1, To: 10}
	for _, c := range []struct {
		name   string
		inputs []float32
		run    reservoir.Run
		scores int
	}{
		{"NaN", with(float32(math.NaN())), run, 0},
		{"Inf", with(float32(math.Inf(-1))), run, 0},
		{"beyond MaxInput", with(1.1e15), run, 0},
		{"ragged inputs", inputs[:19], reservoir.Run{Slot: 1, To: 9}, 0},
		{"slot below", inputs, reservoir.Run{Slot: -1, To: 10}, 0},
		{"slot above", inputs, reservoir.Run{Slot: 3, To: 10}, 0},
		{"samples beyond", inputs, reservoir.Run{Slot: 1, To: 11}, 0},
		{"samples backwards", inputs, reservoir.Run{Slot: 1, From: 5, To: 4}, 0},
		{"negative sample", inputs, reservoir.Run{Slot: 1, From: -1, To: 4}, 0},
		{"no room for scores", inputs, reservoir.Run{Slot: 1, To: 10, Emit: true}, 2},
	} {
		first := reservoir.Run{Slot: 1, Reset: true, To: 3} // would change the state if accepted
		err := e.Advance(c.inputs, []reservoir.Run{first, c.run}, make([]float32, c.scores))
		if err == nil {
			t.Errorf("%s: taken", c.name)
		}
		var bad *reservoir.InputError
		if c.inputs[len(c.inputs)-1] == inputs[len(c.inputs)-1] && c.name == "NaN" && (!errors.As(err, &bad) || bad.Sample != 6 || bad.Channel != 1) {
			t.Errorf("NaN: %v, want an InputError at sample 6, channel 1", err)
		}
	}
	for _, in := range [][]float32{nil, inputs} {
		if err := e.Advance(in, nil, nil); err != nil {
			t.Errorf("a call without runs: %v", err)
		}
	}
	checkSlot(t, e, 1, ref)
	refusedReads(t, e, engine.LayoutOf(s).Words, s.FeatureCount())
	if err := e.SetReadouts([]*readout.Linear{randomReadout(rng, "h", 3, 7)}); err == nil {
		t.Error("a readout of another network was taken")
	}
	if e.ScoreWidth() != 3 {
		t.Errorf("score width %d after a refused readout, want 3", e.ScoreWidth())
	}
}

// refusedReads: an engine of 3 slots refuses to read other slots, and to read into a
// buffer of another size.
func refusedReads(t *testing.T, e reservoir.Engine, words, features int) {
	t.Helper()
	for _, slot := range []int32{-1, 3} {
		if e.ReadState(slot, make([]uint32, words)) == nil || e.Features(slot, make([]float32, features)) == nil {
			t.Errorf("slot %d of 3 was read", slot)
		}
	}
	for _, n := range []int{-1, 1} {
		if e.ReadState(0, make([]uint32, words+n)) == nil || e.Features(0, make([]float32, features+n)) == nil {
			t.Errorf("a state or features were read to room for %d values more", n)
		}
	}
}

// NoAllocation checks that the hot call allocates nothing.
func NoAllocation(t *testing.T, open New) { noAllocation(t, open, bankSpec(2, 2, 9)) }

func noAllocation(t *testing.T, open New, s reservoir.Spec) {
	e := startEngine(t, open, drawNetwork(t, s), 4)
	rng := rand.New(rand.NewPCG(8, 8))
	if err := e.SetReadouts([]*readout.Linear{randomReadout(rng, "h", 3, s.FeatureCount()), limitedReadout(rng, "l", 9, s.FeatureCount())}); err != nil {
		t.Fatal(err)
	}
	inputs := randomInputs(rng, 40)
	if j, ok := e.(engine.Judging); ok {
		if err := j.SetDetectors([]*novelty.Detector{randomDetector(rng, 3, 6, s.FeatureCount()), randomDetector(rng, 33, 0, s.FeatureCount())}); err != nil {
			t.Fatal(err)
		}
	}
	runs := []reservoir.Run{{Slot: 1, To: 10, Emit: true, Judge: true}, {Slot: 3, From: 10, To: 20, Reset: true}, {Slot: 1, From: 3, To: 9}}
	scores := make([]float32, 3+9)
	if n := testing.AllocsPerRun(20, func() {
		if err := e.Advance(inputs, runs, scores); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Advance allocates %v times a call, want 0", n)
	}
}
