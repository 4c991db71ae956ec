// Package enginetest is the conformance suite every engine must pass, bit for
// bit: against a plain reference computed here, and against golden values made
// by an independent program (golden.py).
package enginetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// New makes the engine under test.
type New func(net *reservoir.Network, slots int) (reservoir.Engine, error)

// Run runs the whole suite.
func Run(t *testing.T, open New) {
	Results(t, open)
	t.Run("NoAllocation", func(t *testing.T) { NoAllocation(t, open) })
}

// Results is the suite without NoAllocation, for an engine whose device is
// simulated: that allocates.
func Results(t *testing.T, open New) {
	t.Run("Golden", func(t *testing.T) { golden(t, open) })
	t.Run("Shapes", func(t *testing.T) { shapes(t, open) })
	t.Run("BatchComposition", func(t *testing.T) { batchComposition(t, open) })
	t.Run("LongRun", func(t *testing.T) { longRun(t, open) })
	t.Run("StateRows", func(t *testing.T) { stateRows(t, open) })
	t.Run("Refusals", func(t *testing.T) { refusals(t, open) })
	t.Run("Heads", func(t *testing.T) { heads(t, open) })
}

// bank is a recipe with everything switched on.
func bank(channels, members, units int) reservoir.Spec {
	return reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: channels, Members: members, Units: units, Seed: 11,
		Precision: reservoir.Float32, Standardise: true, Difference: true, Subset: 9, Features: reservoir.AllFeatures,
		Eps: reservoir.Dist{Lo: 1e-3, Hi: 1}, Gamma: reservoir.Dist{Lo: 1e-4, Hi: 1e-1}, EpsRho: reservoir.Dist{Lo: 1e-2, Hi: .2},
		Input: reservoir.Dist{Lo: .03, Hi: 3}, Bias: reservoir.Dist{Lo: .01, Hi: 3},
	}
}

// single is the paper's network; kind chooses among its three reservoirs.
func single(kind reservoir.Kind, channels, units int) reservoir.Spec {
	s := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: kind, Channels: channels, Members: 1, Units: units, Seed: 5,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last}, Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.1),
	}
	if kind == reservoir.EuSN {
		s.Eps, s.Gamma, s.Recurrent = reservoir.Fixed(.1), reservoir.Fixed(.01), reservoir.Fixed(1)
	} else {
		s.SpectralRadius, s.Leak = reservoir.Fixed(.9), reservoir.Fixed(.3)
	}
	return s
}

func draw(t testing.TB, s reservoir.Spec) *reservoir.Network {
	t.Helper()
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	for c := range s.Channels {
		net.Norm.Mean[c] = float32(c%5)/4 - .5
		net.Norm.Scale[c] = 1 + float32(c%7)/8
		net.Norm.Diff[c] = 2 - float32(c%3)/3
	}
	return net
}

func start(t testing.TB, open New, net *reservoir.Network, slots int) reservoir.Engine {
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

// randomHead has no meaning, only weights of every size.
func randomHead(rng *rand.Rand, name string, classes, features int) *readout.Linear {
	h := &readout.Linear{Name: name}
	for c := range classes {
		h.Classes = append(h.Classes, fmt.Sprint(c))
	}
	fill := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	h.Center, h.Weights, h.Intercept = fill(features), fill(h.Columns()*features), fill(h.Columns())
	return h
}

func randomInputs(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()))
		if rng.IntN(50) == 0 {
			v[i] = 0
		}
	}
	return v
}

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

// randomRuns cuts rows into ragged runs, empty ones and repeated slots among
// them; rows are shared by runs here and there, as nothing forbids it.
func randomRuns(rng *rand.Rand, slots, rows int) []reservoir.Run {
	var runs []reservoir.Run
	for at := 0; at < rows; {
		n := min(rng.IntN(9)*rng.IntN(4), rows-at)
		runs = append(runs, reservoir.Run{
			Slot: int32(rng.IntN(slots)), Reset: rng.IntN(6) == 0, Emit: rng.IntN(2) == 0, From: int32(at), To: int32(at + n),
		})
		at += n
		if rng.IntN(8) == 0 {
			at = max(0, at-2)
		}
	}
	return runs
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

func checkSlot(t *testing.T, e reservoir.Engine, slot int, ref *reference) {
	t.Helper()
	s := e.Network().Spec
	row := make([]uint32, s.Layout().Words)
	if err := e.ReadRow(slot, row); err != nil {
		t.Fatal(err)
	}
	if want := ref.row(); !slices.Equal(row, want) {
		for w := range row {
			if row[w] != want[w] {
				t.Fatalf("slot %d, word %d of %d: %#x (%v), want %#x (%v)", slot, w, len(row), row[w], math.Float32frombits(row[w]), want[w], math.Float32frombits(want[w]))
			}
		}
	}
	f := make([]float32, s.FeatureCount())
	if err := e.Features(slot, f); err != nil {
		t.Fatal(err)
	}
	equal(t, fmt.Sprintf("slot %d: features", slot), f, ref.features())
}

// equal compares bits.
func equal(t *testing.T, what string, got, want []float32) {
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

// batchComposition: the same samples of each slot, dealt out to calls in
// different ways, leave the same rows.
func batchComposition(t *testing.T, open New) {
	for _, s := range []reservoir.Spec{bank(2, 3, 10), single(reservoir.EuSN, 3, 37), single(reservoir.RESN, 1, 12)} {
		net := draw(t, s)
		rng := rand.New(rand.NewPCG(3, 3))
		const slots, length = 67, 45
		data := make([][]float32, slots)
		for i := range data {
			data[i] = randomInputs(rng, (length+i%7)*s.Channels)
		}
		var first [][]uint32
		for _, way := range []struct{ streams, samples int }{{1, 1}, {1, 1000}, {slots, 1}, {slots, 1000}, {16, 5}, {33, 3}} {
			e := start(t, open, net, slots)
			deal(t, e, data, way.streams, way.samples)
			rows := make([][]uint32, slots)
			for i := range rows {
				rows[i] = make([]uint32, s.Layout().Words)
				if err := e.ReadRow(i, rows[i]); err != nil {
					t.Fatal(err)
				}
			}
			if first == nil {
				first = rows
			}
			for i := range rows {
				if !slices.Equal(rows[i], first[i]) {
					t.Fatalf("%s: %d streams by %d samples a call: slot %d differs from one sample a call", s.Kind, way.streams, way.samples, i)
				}
			}
		}
	}
}

// deal feeds every slot its data, at most streams slots and samples rows of
// each per call.
func deal(t *testing.T, e reservoir.Engine, data [][]float32, streams, samples int) {
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

// longRun crosses many folds of the two-level sums.
func longRun(t *testing.T, open New) {
	s := bank(1, 2, 5)
	net := draw(t, s)
	e := start(t, open, net, 2)
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

// stateRows: a row read from one engine continues in another.
func stateRows(t *testing.T, open New) {
	s := bank(3, 2, 9)
	net := draw(t, s)
	rng := rand.New(rand.NewPCG(5, 5))
	a, b := start(t, open, net, 3), start(t, open, net, 5)
	inputs := randomInputs(rng, 90*3)
	ref := newReference(net)
	for k := range 90 {
		ref.step(inputs[3*k : 3*k+3])
	}
	row := make([]uint32, s.Layout().Words)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(a.Advance(inputs[:40*3], []reservoir.Run{{Slot: 2, To: 40}}, nil))
	ok(a.ReadRow(2, row))
	ok(b.WriteRow(4, row))
	ok(b.Advance(inputs[40*3:], []reservoir.Run{{Slot: 4, To: 50}}, nil))
	checkSlot(t, b, 4, ref)

	l := s.Layout()
	for name, spoil := range map[string]func(r []uint32) []uint32{
		"short":      func(r []uint32) []uint32 { return r[1:] },
		"NaN state":  func(r []uint32) []uint32 { r[l.Member(1)+l.State] = 0x7fc00000; return r },
		"Inf sample": func(r []uint32) []uint32 { r[l.Previous] = 0xff800000; return r },
		"count":      func(r []uint32) []uint32 { r[l.Member(0)+l.Positive] = 1 << 30; return r },
		"steps":      func(r []uint32) []uint32 { r[1] = 1; return r },
	} {
		if err := b.WriteRow(4, spoil(slices.Clone(row))); err == nil {
			t.Errorf("a row with a wrong %s was taken", name)
		}
	}
	checkSlot(t, b, 4, ref)
}

// refusals: every bad call is refused before any state changes.
func refusals(t *testing.T, open New) {
	s := bank(2, 2, 5)
	net := draw(t, s)
	e := start(t, open, net, 3)
	rng := rand.New(rand.NewPCG(6, 6))
	if err := e.SetHeads([]*readout.Linear{randomHead(rng, "h", 3, s.FeatureCount())}); err != nil {
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
		{"ragged inputs", inputs[:19], run, 0},
		{"slot below", inputs, reservoir.Run{Slot: -1, To: 10}, 0},
		{"slot above", inputs, reservoir.Run{Slot: 3, To: 10}, 0},
		{"rows beyond", inputs, reservoir.Run{Slot: 1, To: 11}, 0},
		{"rows backwards", inputs, reservoir.Run{Slot: 1, From: 5, To: 4}, 0},
		{"negative row", inputs, reservoir.Run{Slot: 1, From: -1, To: 4}, 0},
		{"no room for scores", inputs, reservoir.Run{Slot: 1, To: 10, Emit: true}, 2},
	} {
		first := reservoir.Run{Slot: 1, Reset: true, To: 3} // would change the state if taken
		err := e.Advance(c.inputs, []reservoir.Run{first, c.run}, make([]float32, c.scores))
		if err == nil {
			t.Errorf("%s: taken", c.name)
		}
		var bad *reservoir.InputError
		if c.inputs[len(c.inputs)-1] == inputs[len(c.inputs)-1] && c.name == "NaN" && (!errors.As(err, &bad) || bad.Row != 6 || bad.Channel != 1) {
			t.Errorf("NaN: %v, want an InputError at row 6, channel 1", err)
		}
	}
	checkSlot(t, e, 1, ref)
	if e.ReadRow(3, make([]uint32, s.Layout().Words)) == nil || e.ReadRow(0, nil) == nil || e.Features(-1, nil) == nil {
		t.Error("a slot or buffer that does not exist was read")
	}
	if err := e.SetHeads([]*readout.Linear{randomHead(rng, "h", 3, 7)}); err == nil {
		t.Error("a head of another network was taken")
	}
	if e.ScoreWidth() != 3 {
		t.Errorf("score width %d after a refused head, want 3", e.ScoreWidth())
	}
}

// heads: several readouts on one state, swapped without touching it.
func heads(t *testing.T, open New) {
	s := bank(2, 2, 7)
	net := draw(t, s)
	e := start(t, open, net, 2)
	rng := rand.New(rand.NewPCG(7, 7))
	inputs := randomInputs(rng, 24)
	ref := newReference(net)
	for at, classes := range [][]int{{2}, {3, 2, 40}, nil, {2, 2}} {
		var hs []*readout.Linear
		for i, c := range classes {
			hs = append(hs, randomHead(rng, fmt.Sprint(i), c, s.FeatureCount()))
		}
		if err := e.SetHeads(hs); err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			ref.step(inputs[(3*at+k)*2 : (3*at+k+1)*2])
		}
		scores := make([]float32, e.ScoreWidth())
		if err := e.Advance(inputs, []reservoir.Run{{Slot: 1, From: int32(3 * at), To: int32(3*at + 3), Emit: true}}, scores); err != nil {
			t.Fatal(err)
		}
		equal(t, fmt.Sprintf("heads %v", classes), scores, expectedScores(hs, ref.features()))
	}
	checkSlot(t, e, 1, ref)
}

// NoAllocation checks that the hot call allocates nothing.
func NoAllocation(t *testing.T, open New) {
	s := bank(2, 2, 9)
	e := start(t, open, draw(t, s), 4)
	rng := rand.New(rand.NewPCG(8, 8))
	if err := e.SetHeads([]*readout.Linear{randomHead(rng, "h", 3, s.FeatureCount())}); err != nil {
		t.Fatal(err)
	}
	inputs := randomInputs(rng, 40)
	runs := []reservoir.Run{{Slot: 1, To: 10, Emit: true}, {Slot: 3, From: 10, To: 20, Reset: true}, {Slot: 1, From: 3, To: 9}}
	scores := make([]float32, 3)
	if n := testing.AllocsPerRun(20, func() {
		if err := e.Advance(inputs, runs, scores); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Advance allocates %v times a call, want 0", n)
	}
}
