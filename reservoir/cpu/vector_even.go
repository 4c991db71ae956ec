package cpu

import (
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// advanceEven takes a tile through all samples at once, if its runs have equal
// length, no more than a chunk, and nothing happens before the end: no state is
// reset or folds its sums, no sample is a sequence's first (without a
// difference). It reports whether it advanced the tile. Calls with one sample a
// stream consist of such tiles, and spend most time outside arithmetic on
// inspecting each stream.
func (w *worker) advanceEven(c *call, it, next *item, runs []reservoir.Run) bool {
	v := w.v
	n := int(runs[0].To - runs[0].From)
	if n == 0 || n > w.chunk || !v.even(runs, n) {
		return false
	}
	shape := v.shapeOf(len(runs))
	lanes := v.shapes[shape].lanes
	held := sameSlots(runs, w.held)
	if !held {
		w.hold(c, runs, lanes)
	}
	w.gatherEven(c, runs, lanes, n)
	w.transform(lanes, n)
	if v.set.Ahead() && n > prefetchSteps {
		w.args.Ahead = c.samplesAhead(next, v.channels)
	}
	for m := it.first; m < it.last; m++ {
		w.use(m, shape)
		w.args.Inputs = kernel.Address(w.x)
		if !held {
			w.load(m, w.slots[:lanes])
		}
		if v.far && (v.set.Ahead() || n <= prefetchSteps) {
			w.prefetch(m+1, it.last, len(runs))
		}
		w.steps(n)
		w.args.Ahead = 0 // all prefetched
		w.store(m, w.slots[:lanes])
	}
	return true
}

// samplesAhead returns the start of the samples of an item's runs, or 0 if the
// samples are not consecutive.
func (c *call) samplesAhead(it *item, channels int) uintptr {
	if it == nil || it.tile.list == nil {
		return 0
	}
	list := it.tile.list
	first, last := list[0], list[len(list)-1]
	if n := int(first.To - first.From); n == 0 || int(last.To-first.From) != n*len(list) {
		return 0
	}
	return kernel.Address(c.inputs[int(first.From)*channels:])
}

// gatherEven brings n samples of every run side by side into raw, and the
// sample before them.
func (w *worker) gatherEven(c *call, runs []reservoir.Run, lanes, n int) {
	channels := w.v.channels
	pointSamples(w.source[:], c.inputs, channels, runs)
	for i := len(runs); i < lanes; i++ {
		w.source[i] = &w.zero[0]
	}
	w.loadWords(w.raw[channels*lanes:], w.source[:lanes], 0, n*channels)
	if previous := w.v.layout.Previous; previous >= 0 {
		w.loadWords(w.raw, w.slots[:lanes], previous, channels)
	}
}

// hold points slots at the slots of the runs. The tile is held if it is the
// only work, and has one member: then only this worker's next item, or calls of
// forget, can come between it and the slots. If the same few streams come call
// after call, their states are stored each time but not loaded.
func (w *worker) hold(c *call, runs []reservoir.Run, lanes int) {
	v := w.v
	pointWords(w.slots[:], v.states, v.layout.Words, 0, runs)
	for i := len(runs); i < lanes; i++ {
		w.slots[i] = &w.idle[0]
	}
	w.held = w.held[:0]
	if len(c.items) > 1 || len(v.members) > 1 {
		return
	}
	for i := range runs {
		w.held = append(w.held, runs[i].Slot)
	}
}

// forget implements itemWorker.
func (w *worker) forget() { w.held = w.held[:0] }

// even reports whether the runs have n samples each and nothing happens before
// their end.
func (v *vectorEngine) even(runs []reservoir.Run, n int) bool {
	return equallyLong(runs, int32(n)) && (v.layout.SumLow < 0 && v.layout.Previous < 0 || undisturbed(v.book, runs, uint64(n)))
}
