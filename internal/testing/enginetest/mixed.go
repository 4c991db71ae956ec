package enginetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Mixed is the suite for networks of kind mixed; Run is the suite for the other kinds.
func Mixed(t *testing.T, open New) {
	mixedResults(t, open, false)
	t.Run("NoAllocation", func(t *testing.T) { noAllocation(t, open, mixedBank(2, 8, 8, 20)) })
}

// MixedResults is Mixed for an engine on a simulated device, which allocates and is slow:
// without NoAllocation, without the golden case of 131,536 samples (Thinning starts after
// many samples and needs few), with every second network size, and with fewer samples in
// BatchComposition.
func MixedResults(t *testing.T, open New) { mixedResults(t, open, true) }

func mixedResults(t *testing.T, open New, few bool) {
	golden, each, length := math.MaxInt, 1, 45
	if few {
		golden, each, length = 1<<14, 2, 18
	}
	for _, check := range []struct {
		name string
		run  func(*testing.T, New)
	}{
		{"Golden", func(t *testing.T, open New) { goldenCases(t, open, goldenMixedFile, golden) }},
		{"Shapes", func(t *testing.T, open New) { mixedShapes(t, open, each) }},
		{"BatchComposition", func(t *testing.T, open New) {
			testComposition(t, open, length, mixedBank(2, 8, 8, 11), mixedBank(1, 16, 0, 64))
		}},
		{"Lags", mixedLags},
		{"Windows", mixedWindows},
		{"Snapshots", mixedSnapshots},
		{"Thinning", mixedThinning},
		{"Ties", mixedTies},
		{"Refusals", mixedRefusals},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(t, open) })
	}
}

// mixedBank is a recipe of tap members and recurrent members, multiples of 8.
func mixedBank(channels, taps, recurrent, lag int) reservoir.Spec {
	s := reservoir.Spec{
		Arithmetic: reservoir.MixedArithmetic, Kind: reservoir.Mixed, Channels: channels, Members: taps + recurrent, Units: 16, Seed: 17,
		Precision: reservoir.Float32, Standardize: true, Difference: true, Subset: 9, Features: reservoir.MixedFeatures,
		Gamma: reservoir.Dist{Lo: 3e-4, Hi: .5}, Input: reservoir.Dist{Lo: .03, Hi: 3}, Bias: reservoir.Dist{Lo: .03, Hi: 3},
		Taps: reservoir.Taps{Members: taps, Count: 6, MaxLag: lag, Activation: reservoir.Cubic},
	}
	if recurrent > 0 {
		s.EpsRho = reservoir.Dist{Lo: 1e-2, Hi: .3}
	}
	return s
}

// mixedShapes runs every each-th size, and all other shapes.
func mixedShapes(t *testing.T, open New, each int) {
	specs := map[string]reservoir.Spec{}
	some := func(sizes ...int) (taken []int) {
		for i := len(sizes) - 1; i >= 0; i -= each {
			taken = append(taken, sizes[i])
		}
		return taken
	}
	for _, c := range some(1, 2, 3, 4, 9, 33) {
		specs[fmt.Sprintf("mixed/channels/%d", c)] = mixedBank(c, 8, 8, 7)
	}
	for _, lag := range some(1, 2, 16, 63, 64, 65, 256) {
		specs[fmt.Sprintf("mixed/lag/%d", lag)] = mixedBank(2, 8, 0, lag)
	}
	for _, count := range some(1, 2, 3, 7, 16) {
		s := mixedBank(2, 16, 0, 9)
		s.Taps.Count = count
		specs[fmt.Sprintf("mixed/taps/%d", count)] = s
	}
	for _, a := range []reservoir.Activation{reservoir.Tanh, reservoir.Clip, reservoir.Cubic} {
		s := mixedBank(2, 8, 16, 5)
		s.Taps.Activation = a
		specs["mixed/"+string(a)] = s
		s.Input, s.Bias = reservoir.Fixed(100), reservoir.Fixed(.01)
		specs["mixed/saturated/"+string(a)] = s
	}
	s := mixedBank(3, 8, 8, 5)
	s.Precision = reservoir.TF32
	specs["mixed/tf32"] = s
	s = mixedBank(3, 8, 8, 5)
	s.Standardize = false
	specs["mixed/difference only"] = s
	s = mixedBank(5, 8, 8, 5)
	s.Difference, s.Subset = false, 0
	specs["mixed/standardize only, all inputs"] = s
	runShapes(t, open, specs)
}

// mixedLags: an impulse returns after its lag, for any split into calls, and not after a
// reset.
func mixedLags(t *testing.T, open New) {
	const lag = 40
	s := mixedBank(1, 8, 0, lag)
	s.Standardize, s.Difference = false, false
	net := drawNetwork(t, s)
	for r := range net.Members { // unit 0: only the impulse, no memory
		m := &net.Members[r]
		m.Lags[1], m.Lags[2] = lag, 39
		for k := range m.Lags {
			m.Input[k] = 0
		}
		m.Input[1], m.Bias[0], m.Recurrent[0] = 1, 0x1p-20, -1
	}
	inputs := make([]float32, 3*lag)
	inputs[3] = 1
	for _, cut := range []int{1, 2, 39, 40, 41, 120} {
		e := startEngine(t, open, net, 2)
		var got []int
		state, feature := make([]uint32, engine.LayoutOf(s).Words), make([]float32, s.FeatureCount())
		for at := 0; at < len(inputs); at += cut {
			n := min(cut, len(inputs)-at)
			if err := e.Advance(inputs[at:at+n], []reservoir.Run{{Slot: 1, To: int32(n)}}, nil); err != nil {
				t.Fatal(err)
			}
			if err := e.Features(1, feature); err != nil {
				t.Fatal(err)
			}
			if cut == 1 && feature[0] > .5 {
				got = append(got, at)
			}
		}
		if cut == 1 && !slices.Equal(got, []int{3 + lag}) {
			t.Errorf("an impulse at sample 3 shows at samples %v, want %d", got, 3+lag)
		}
		if err := e.Advance(make([]float32, lag), []reservoir.Run{{Slot: 1, Reset: true, To: lag}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := e.ReadState(1, state); err != nil {
			t.Fatal(err)
		}
		ref := newReference(net)
		for range lag {
			ref.step([]float32{0})
		}
		checkSlot(t, e, 1, ref)
	}
}

// mixedWindows: hopping windows are slots that read the same samples from different
// starts.
func mixedWindows(t *testing.T, open New) {
	const length, hop, channels = 36, 12, 2
	s := mixedBank(channels, 8, 8, 9)
	net := drawNetwork(t, s)
	e := startEngine(t, open, net, length/hop)
	inputs := randomInputs(rand.New(rand.NewPCG(12, 12)), 10*hop*channels)
	for at := 0; at < 10; at++ {
		var runs []reservoir.Run
		for phase := range min(at+1, length/hop) {
			began := at - phase // the hop of the window's start
			runs = append(runs, reservoir.Run{Slot: int32(began % (length / hop)), Reset: phase == 0, From: 0, To: hop})
		}
		if err := e.Advance(inputs[at*hop*channels:(at+1)*hop*channels], runs, nil); err != nil {
			t.Fatal(err)
		}
		if began := at - length/hop + 1; began >= 0 {
			ref := newReference(net)
			for k := began * hop; k < (at+1)*hop; k++ {
				ref.step(inputs[k*channels : (k+1)*channels])
			}
			checkSlot(t, e, int32(began%(length/hop)), ref)
		}
	}
}

// mixedSnapshots: a state read at any position of the ring continues in another slot of
// another engine.
func mixedSnapshots(t *testing.T, open New) {
	const lag, length = 13, 40
	s := mixedBank(2, 8, 8, lag)
	net := drawNetwork(t, s)
	inputs := randomInputs(rand.New(rand.NewPCG(13, 13)), 2*length)
	a, b := startEngine(t, open, net, 1), startEngine(t, open, net, 3)
	ref := newReference(net)
	for k := range length {
		ref.step(inputs[2*k : 2*k+2])
	}
	state := make([]uint32, engine.LayoutOf(s).Words)
	for cut := range length + 1 {
		for _, do := range []func() error{
			func() error { return a.Advance(inputs[:2*cut], []reservoir.Run{{Reset: true, To: int32(cut)}}, nil) },
			func() error { return a.ReadState(0, state) },
			func() error { return b.WriteState(2, state) },
			func() error {
				return b.Advance(inputs[2*cut:], []reservoir.Run{{Slot: 2, To: int32(length - cut)}}, nil)
			},
		} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		checkSlot(t, b, 2, ref)
	}
}

// mixedThinning: long sequences count every second, fourth, ... sample; calls begin and
// end near the samples at which the stride changes.
func mixedThinning(t *testing.T, open New) {
	s := mixedBank(1, 8, 8, 5)
	net := drawNetwork(t, s)
	rng := rand.New(rand.NewPCG(14, 14))
	for _, steps := range []uint64{32768 - 5, 32768, 65536 - 9, 1<<20 - 3, 1 << 31, reservoir.MaxSteps - 40} {
		e := startEngine(t, open, net, 1)
		ref := newMixedReference(net)
		for range 6 { // fill the ring
			ref.step(randomInputs(rng, 1))
		}
		old := ref.inputs
		ref.inputs = map[uint64][]float32{}
		for k := range uint64(5) {
			ref.inputs[steps-k] = old[6-k]
		}
		ref.steps = steps
		for k := range ref.members {
			for i := range 16 {
				ref.members[k].sum[i], ref.members[k].square[i] = 20000*float32(rng.NormFloat64()), 70000*rng.Float32()
				for kind := range 4 {
					ref.members[k].counts[kind][i] = uint32(rng.IntN(16384))
				}
			}
		}
		if err := e.WriteState(0, ref.words()); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 3, 1, 20, 2, 7} {
			inputs := randomInputs(rng, n)
			if err := e.Advance(inputs, []reservoir.Run{{To: int32(n)}}, nil); err != nil {
				t.Fatal(err)
			}
			for k := range inputs {
				ref.step(inputs[k : k+1])
			}
			checkSlot(t, e, 0, ref)
		}
	}
}

// mixedTies: if several units have the largest or the smallest argument, all win or all
// lose; if all are equal, all do both. An argument of 0 is not positive, and 0 is not
// larger than -0.
func mixedTies(t *testing.T, open New) {
	s := mixedBank(1, 8, 0, 4)
	net := drawNetwork(t, s)
	for r := range net.Members {
		m := &net.Members[r]
		for i := range 16 {
			from := i
			switch {
			case i < 8:
				from = i / (1 + r) * (1 + r) // r+1 equal units
			case r%2 == 0:
				from = 8 // the second group is equal
			}
			m.Bias[i], m.Recurrent[i] = m.Bias[from], m.Recurrent[from]
			copy(m.Input[i*6:i*6+6], m.Input[from*6:from*6+6])
			if r == 7 && i >= 8 { // z is always 0
				m.Bias[i] = 0
				clear(m.Input[i*6 : i*6+6])
			}
			if r == 7 && i >= 12 { // -0 if all inputs are 0 or positive, else 0
				m.Bias[i] = float32(math.Copysign(0, -1))
				for k := range 6 {
					m.Input[i*6+k] = m.Bias[i]
				}
			}
		}
	}
	e, ref := startEngine(t, open, net, 1), newMixedReference(net)
	inputs := randomInputs(rand.New(rand.NewPCG(15, 15)), 50)
	inputs[0], inputs[49] = 1, -9 // the first argument there is -0, the last 0
	if err := e.Advance(inputs, []reservoir.Run{{To: 50}}, nil); err != nil {
		t.Fatal(err)
	}
	for k := range inputs {
		ref.step(inputs[k : k+1])
	}
	if m := ref.members[7].max[15]; m != 0 || !math.Signbit(float64(m)) {
		t.Errorf("the largest argument is %v, want -0, the first to come", m)
	}
	checkSlot(t, e, 0, ref)
}

// mixedRefusals: an impossible state is refused, and the slot keeps its state.
func mixedRefusals(t *testing.T, open New) {
	s := mixedBank(2, 8, 8, 6)
	net := drawNetwork(t, s)
	e, ref := startEngine(t, open, net, 2), newReference(net)
	inputs := randomInputs(rand.New(rand.NewPCG(16, 16)), 2*30)
	if err := e.Advance(inputs, []reservoir.Run{{Slot: 1, To: 30}}, nil); err != nil {
		t.Fatal(err)
	}
	for k := range 30 {
		ref.step(inputs[2*k : 2*k+2])
	}
	const ring, first = 4, 4 + 4*6 + 2*4
	nan, inf := uint32(0x7fc00000), math.Float32bits(float32(math.Inf(1)))
	for name, spoil := range map[string]func(w []uint32) []uint32{
		"long":            func(w []uint32) []uint32 { return append(w, 0) },
		"short":           func(w []uint32) []uint32 { return w[1:] },
		"steps":           func(w []uint32) []uint32 { w[1] = 1; return w },
		"NaN sample":      func(w []uint32) []uint32 { w[2] = nan; return w },
		"NaN in the ring": func(w []uint32) []uint32 { w[ring+23] = nan; return w },
		"Inf state":       func(w []uint32) []uint32 { w[first+768] = inf; return w },
		"Inf max":         func(w []uint32) []uint32 { w[first+511] = inf; return w },
		"low count":       func(w []uint32) []uint32 { w[first+512] = 31; return w },
		"high count":      func(w []uint32) []uint32 { w[first+768+767] = 31 << 16; return w },
	} {
		if err := e.WriteState(1, spoil(ref.words())); err == nil {
			t.Errorf("a state with a wrong %s was taken", name)
		}
	}
	checkSlot(t, e, 1, ref)
	if err := e.WriteState(0, ref.words()); err != nil {
		t.Fatal(err)
	}
	checkSlot(t, e, 0, ref)
	bad := slices.Clone(inputs)
	bad[13] = float32(math.NaN())
	if err := e.Advance(bad, []reservoir.Run{{Slot: 1, Reset: true, To: 30}}, nil); err == nil {
		t.Error("a NaN was taken")
	}
	checkSlot(t, e, 1, ref)
}
