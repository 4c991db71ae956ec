package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestEven: calls of equally many samples for each of a few streams use
// advanceEven, and any event between two such calls leaves the same states as in
// the plain engine.
func TestEven(t *testing.T) {
	if len(kernel.Levels()) == 0 {
		t.Skip("NOT CHECKED: this machine or build has no vector kernels")
	}
	sums := benchSpec(1, 11, 3)
	sums.Standardize, sums.Difference, sums.Features = true, true, reservoir.AllFeatures
	sumsAlone, differencesAlone := sums, sums
	sumsAlone.Difference, differencesAlone.Features = false, []reservoir.Feature{reservoir.Last}
	for name, s := range map[string]reservoir.Spec{"paper": benchSpec(1, 20, 3), "sums": sums, "sums alone": sumsAlone,
		"differences alone": differencesAlone, "bank": benchSpec(3, 9, 2)} {
		for _, set := range kernel.Levels() {
			counts := []int{set.Narrow.Lanes - 1, 16, 19} // the same on every core: internal/testing/bochs names them
			if set.Tile > 16 {
				counts = append(counts, set.Tile, set.Tile+3)
			}
			for _, streams := range counts {
				t.Run(fmt.Sprintf("%s/%s/%d", name, set.Name, streams), func(t *testing.T) { newTwins(t, s, set, streams).run() })
			}
		}
	}
}

// twins are a vector engine and the plain engine, with the same calls.
type twins struct {
	*testing.T
	v       *vectorEngine
	g       *genericEngine
	streams int
	rng     *rand.Rand
	idle    bool // the vector engine's caller leaves all work to the other threads
}

func newTwins(t *testing.T, s reservoir.Spec, set *kernel.Set, streams int) *twins {
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	slots := 2*streams + 1
	v, err := newVector(net, slots, set, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	v.singles = 1 // the few left over by full tiles are a tile as well
	g, err := newGeneric(net, slots)
	if err != nil {
		t.Fatal(err)
	}
	return &twins{T: t, v: v, g: g, streams: streams, rng: rand.New(rand.NewPCG(1, uint64(streams)))}
}

// advance gives both engines the runs, draws the samples, and compares the slots.
func (w *twins) advance(what string, runs []reservoir.Run) {
	w.Helper()
	samples := 0
	for _, r := range runs {
		samples = max(samples, int(r.To))
	}
	in := make([]float32, samples*w.v.channels)
	for i := range in {
		in[i] = float32(w.rng.NormFloat64())
	}
	vector := w.v.Advance
	if w.idle {
		vector = w.byHelpers
	}
	for _, advance := range []func([]float32, []reservoir.Run, []float32) error{vector, w.g.Advance} {
		if err := advance(in, runs, nil); err != nil {
			w.Fatalf("%s: %v", what, err)
		}
	}
	for i := range w.v.Slots() {
		if !slices.Equal(w.v.state(int32(i)), w.g.state(int32(i))) {
			w.Fatalf("%s: the states of slot %d differ", what, i)
		}
	}
}

// byHelpers is Advance for runs of one round without the caller's worker, as
// may happen with quick helpers.
func (w *twins) byHelpers(inputs []float32, runs []reservoir.Run, _ []float32) error {
	p, g := &w.v.plan, &w.v.gang
	p.cut(w.v.book, runs)
	c := call{inputs: inputs, runs: runs, score: p.score}
	c.items, c.threads = p.items(runs, 0)
	g.deal(&c, len(g.workers)-1)
	<-g.finished
	return nil
}

// runsOf are runs of n samples for the slots from first on.
func (w *twins) runsOf(first, n int) []reservoir.Run {
	runs := make([]reservoir.Run, w.streams)
	for i := range runs {
		runs[i] = reservoir.Run{Slot: int32(first + i), From: int32(i * n), To: int32((i + 1) * n)}
	}
	return runs
}

// evenly advances the first slots by n samples and checks the chosen way.
func (w *twins) evenly(what string, n int, even bool) {
	w.Helper()
	first := &w.v.gang.workers[0].(*worker).lanes[0]
	const untouched = -7 // by open, the start of the longer way
	first.begin = untouched
	w.advance(what, w.runsOf(0, n))
	if got := first.begin == untouched; got != even {
		w.Errorf("%s: the short way: %v, want %v", what, got, even)
	}
}

func (w *twins) run() {
	v := w.v
	oneTile := w.streams <= v.set.Tile
	holds := oneTile && len(v.members) == 1
	begun := v.layout.SumLow < 0 && v.layout.Previous < 0 // a sequence's first sample is not special
	w.evenly("first call", 1, begun)
	state := v.layout.Member(0) + v.layout.State
	for _, between := range []struct {
		name    string
		disturb func(what string)
		even    bool // the next call takes the short way
	}{
		{"nothing", func(string) {}, true},
		{"a state written", func(what string) {
			row := slices.Clone(v.state(1))
			row[state] ^= 1 << 20
			for _, e := range []reservoir.Engine{v, w.g} {
				if err := e.WriteState(1, row); err != nil {
					w.Fatalf("%s: %v", what, err)
				}
			}
		}, true},
		{"a reset", func(what string) {
			runs := w.runsOf(0, 1)
			runs[2].Reset = true
			w.advance(what, runs)
		}, true},
		{"a reset without samples", func(what string) { w.advance(what, []reservoir.Run{{Slot: 0, Reset: true}}) }, begun},
		{"one stream alone", func(what string) { w.advance(what, []reservoir.Run{{Slot: 1, To: 1}}) }, true},
		{"other streams", func(what string) { w.advance(what, w.runsOf(w.streams, 1)) }, true},
		{"one other stream", func(what string) {
			runs := w.runsOf(0, 1)
			runs[3].Slot = int32(w.streams)
			w.advance(what, runs)
		}, true},
		{"fewer streams", func(what string) { w.advance(what, w.runsOf(0, 1)[:w.streams-1]) }, true},
		{"another order", func(what string) {
			runs := w.runsOf(0, 1)
			runs[0].Slot, runs[1].Slot = runs[1].Slot, runs[0].Slot
			w.advance(what, runs)
		}, true},
		{"runs of other lengths", func(what string) {
			runs := w.runsOf(0, 2)
			runs[4].To--
			w.advance(what, runs)
		}, true},
		{"two runs of a slot", func(what string) {
			runs := w.runsOf(0, 1)
			w.advance(what, append(runs, runs...))
		}, true},
		{"samples beyond a chunk", func(what string) { w.advance(what, w.runsOf(0, v.gang.workers[0].(*worker).chunk+1)) }, true},
		{"a fold", func(what string) {
			runs := w.runsOf(0, 5)
			for i := range runs {
				runs[i].Reset = true
			}
			w.advance(what, runs)
			for range 5 {
				w.evenly(what, 50, true)
			}
			w.evenly(what, 1, begun) // the 256th
		}, true},
		{"several threads", func(what string) {
			one := v.plan.perSample
			v.plan.perSample = 1e12
			w.advance(what, w.runsOf(0, 1))
			v.plan.perSample = one
		}, true},
		{"threads without the caller", func(what string) {
			w.idle = true
			w.advance(what, w.runsOf(0, 1))
			w.idle = false
		}, true},
		{"numbers of calls that begin again", func(what string) {
			v.plan.call = math.MaxUint32 - 1
			for i := range v.book {
				v.book[i].call = 1
			}
			// A planned call, although not every run was inspected.
			row := slices.Clone(v.state(int32(2 * w.streams)))
			row[0] = reservoir.MaxSteps
			for _, e := range []reservoir.Engine{v, w.g} {
				if err := e.WriteState(int32(2*w.streams), row); err != nil {
					w.Fatalf("%s: %v", what, err)
				}
			}
			w.advance(what, append([]reservoir.Run{{Slot: int32(2 * w.streams), Reset: true, To: 1}}, w.runsOf(0, 1)...))
			if v.plan.call != 1 {
				w.Errorf("%s: this is call %d, want 1", what, v.plan.call)
			}
		}, true},
		{"a call refused", func(what string) {
			in := make([]float32, w.streams*v.channels)
			in[len(in)-1] = 2 * reservoir.MaxInput
			if v.Advance(in, w.runsOf(0, 1), nil) == nil {
				w.Fatalf("%s: it was taken", what)
			}
		}, true},
		{"an end before a fold", func(what string) {
			runs := w.runsOf(0, 100)
			for i := range runs {
				runs[i].Reset = true
			}
			w.advance(what, runs)
			w.evenly(what, 100, true)
			runs = w.runsOf(0, 100) // up to 300
			runs[0].To -= 60        // to 240
			w.advance(what, runs)
		}, true},
	} {
		w.evenly("before "+between.name, 1, true)
		if got := len(v.gang.workers[0].(*worker).held) > 0; got != holds {
			w.Errorf("before %s: states are held: %v, want %v", between.name, got, holds)
		}
		if holds { // a held tile is not loaded
			v.state(0)[state] ^= 1 << 22
			w.evenly("before "+between.name, 1, true)
		}
		between.disturb(between.name)
		w.evenly("after "+between.name, 1, between.even)
		w.evenly("after "+between.name, 1, true)
	}
}

// TestSamplesAhead: samples are prefetched if they are consecutive.
func TestSamplesAhead(t *testing.T) {
	const channels = 3
	c := call{inputs: make([]float32, 100*channels)}
	for name, test := range map[string]struct {
		item *item
		from int // -1: not prefetched
	}{
		"none":        {nil, -1},
		"scattered":   {&item{tile: &tile{runs: []int32{4, 2}}}, -1},
		"in a row":    {&item{tile: &tile{list: []reservoir.Run{{From: 10, To: 20}, {From: 20, To: 30}, {From: 30, To: 40}}}}, 10},
		"one":         {&item{tile: &tile{list: []reservoir.Run{{From: 99, To: 100}}}}, 99},
		"a gap":       {&item{tile: &tile{list: []reservoir.Run{{From: 10, To: 20}, {From: 30, To: 40}}}}, -1},
		"backwards":   {&item{tile: &tile{list: []reservoir.Run{{From: 30, To: 40}, {From: 10, To: 20}}}}, -1},
		"the same":    {&item{tile: &tile{list: []reservoir.Run{{From: 10, To: 20}, {From: 10, To: 20}}}}, -1},
		"no samples":  {&item{tile: &tile{list: []reservoir.Run{{From: 100, To: 100}}}}, -1},
		"none begins": {&item{tile: &tile{list: []reservoir.Run{{From: 10, To: 10}, {From: 10, To: 20}}}}, -1},
	} {
		want := uintptr(0)
		if test.from >= 0 {
			want = kernel.Address(c.inputs[test.from*channels:])
		}
		if got := c.samplesAhead(test.item, channels); got != want {
			t.Errorf("%s: %#x, want %#x", name, got, want)
		}
	}
}
