package cpu

import (
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
)

// advanceChunk takes the next samples of the tile's lanes, at most one chunk,
// through the item's members. Lanes are in order of their length, so the lanes
// with samples left come first.
func (w *worker) advanceChunk(c *call, it *item) {
	active := 0
	for active < len(it.tile.runs) && w.lanes[active].left > 0 {
		active++
	}
	if active <= w.v.singles {
		w.advanceSingles(c, it, active)
		return
	}
	// At least half the lanes are in use throughout.
	n := min(w.chunk, w.lanes[(active-1)/2].left)
	shape := w.v.shapeOf(active)
	lanes := w.v.shapes[shape].lanes
	w.gather(c, active, lanes, n)
	w.transform(lanes, n)
	w.clearDifferences(active, lanes)
	w.findCuts(active, n)
	for m := it.first; m < it.last; m++ {
		w.use(m, shape)
		w.advanceMember(m, it.last, active, lanes, n)
	}
	for i := range w.lanes[:active] {
		l := &w.lanes[i]
		k := min(n, l.left)
		l.from, l.left, l.steps = l.from+k, l.left-k, l.steps+uint64(k)
	}
}

// shapeOf is the tile for a number of streams.
func (v *vectorEngine) shapeOf(streams int) int {
	if streams > v.narrows {
		return wide
	}
	return narrow
}

// gather copies n samples of every lane into parallel lanes of raw, with the
// previous sample. Lanes that end earlier continue with samples of other runs.
// Their results are never stored, and all inputs were checked to be finite.
func (w *worker) gather(c *call, active, lanes, n int) {
	channels, l := w.v.channels, &w.v.layout
	for i := range lanes {
		w.slots[i], w.source[i] = &w.zero[0], &w.zero[0]
		if i >= active {
			continue
		}
		a := &w.lanes[i]
		w.slots[i] = &a.words[0]
		have := c.inputs[a.from*channels:]
		if len(have) < n*channels {
			tail := w.tails[i*w.chunk*channels:][:n*channels]
			copy(tail, have)
			have = tail
		}
		w.source[i] = wordsOf(have)
	}
	w.loadWords(w.raw[channels*lanes:], w.source[:lanes], 0, n*channels)
	if l.Previous < 0 {
		return
	}
	for i := range active {
		if a := &w.lanes[i]; a.from > a.begin {
			w.source[i] = wordsOf(c.inputs[(a.from-1)*channels:])
		} else {
			w.source[i] = &a.words[l.Previous]
		}
	}
	w.loadWords(w.raw, w.source[:lanes], 0, channels)
}

// loadWords loads n words of every lane's slot, from word on, into vectors.
func (w *worker) loadWords(dst []float32, slots []*uint32, word, n int) {
	for i := 0; i < len(slots); i += w.v.set.Vector {
		w.v.set.Load(&dst[i], 4*len(slots), &slots[i], 4*word, n)
	}
}

// transform computes the inputs of n samples of all lanes; see
// Network.Transform.
func (w *worker) transform(lanes, n int) {
	net := w.v.net
	s, norm := &net.Spec, &net.Norm
	if !w.v.transforms {
		w.x = w.raw[s.Channels*lanes:]
		return
	}
	for t := range n {
		raw := w.raw[(t+1)*s.Channels*lanes:][:s.Channels*lanes]
		x := w.x[t*s.Inputs()*lanes:][:s.Inputs()*lanes]
		for c := range s.Channels {
			in, out := raw[c*lanes:(c+1)*lanes], x[c*lanes:(c+1)*lanes]
			if !s.Standardize {
				copy(out, in)
				continue
			}
			mean, scale := norm.Mean[c], norm.Scale[c]
			for i, v := range in {
				out[i] = (v - mean) * scale
			}
		}
		if !s.Difference {
			continue
		}
		before, diff := w.raw[t*s.Channels*lanes:][:s.Channels*lanes], x[s.Channels*lanes:]
		for c := range s.Channels {
			scale := norm.Diff[c]
			in, old, out := raw[c*lanes:(c+1)*lanes], before[c*lanes:(c+1)*lanes], diff[c*lanes:(c+1)*lanes]
			for i, v := range in {
				out[i] = (v - old[i]) * scale
			}
		}
	}
}

// clearDifferences sets the differences of first samples to zero.
func (w *worker) clearDifferences(active, lanes int) {
	if w.v.layout.Previous < 0 {
		return
	}
	channels := w.v.channels
	for i := range w.lanes[:active] {
		if w.lanes[i].steps == 0 {
			for c := range channels {
				w.x[(channels+c)*lanes+i] = 0
			}
		}
	}
}

// findCuts marks the samples of the chunk after which a lane ends or folds its
// sums.
func (w *worker) findCuts(active, n int) {
	clear(w.cuts[:n])
	w.cuts[n] = true
	sums := w.v.layout.SumLow >= 0
	for i := range w.lanes[:active] {
		l := &w.lanes[i]
		if l.left < n {
			w.cuts[l.left] = true
		}
		if t := engine.FoldEvery - int(l.steps%engine.FoldEvery); sums && t <= n {
			w.cuts[t] = true
		}
	}
}

// advanceMember takes the chunk through member m, which is in use.
func (w *worker) advanceMember(m, last, active, lanes, n int) {
	v := w.v
	w.args.Inputs = kernel.Address(w.x)
	w.load(m, w.slots[:lanes])
	if n <= prefetchSteps && v.far {
		w.prefetch(m+1, last, active)
	}
	for t := 0; t < n; {
		from := t
		for t++; !w.cuts[t]; t++ {
		}
		w.steps(t - from)
		w.settle(m, active, lanes, t, t == n)
	}
}

// prefetchSteps: with at most this many samples of a tile, states take longer to
// load from memory than to advance: prefetch loads states one member or tile ahead,
// and kernel.Set.Ahead does so with more samples. Not if all states are near; see
// nearBytes.
const prefetchSteps = 8

// prefetch prefetches the slots' words of member m or, if m is beyond the
// item's members, of the next item's first member; but not the high-level sums,
// which one sample in 256 touches.
func (w *worker) prefetch(m, last, active int) {
	l := &w.v.layout
	slots, at := w.slots[:active], l.Member(m)
	if m >= last {
		slots, at = w.next[:w.nexts], 0
	}
	if len(slots) == 0 {
		return
	}
	for from := 0; from < l.MemberWords; {
		to := from + w.v.units
		if from != l.SumHigh && from != l.SquareHigh {
			for to < l.MemberWords && to != l.SumHigh && to != l.SquareHigh {
				to += w.v.units
			}
			w.v.set.Prefetch(&slots[0], len(slots), 4*(at+from), 4*(to-from))
		}
		from = to
	}
}

// settle folds the sums that are due after t samples of the chunk, and stores
// the lanes that end there, or at the end of the chunk all lanes that have not
// ended.
func (w *worker) settle(m, active, lanes, t int, end bool) {
	v := w.v
	at := v.layout.Member(m)
	store := false
	for i := range lanes {
		w.stores[i] = &w.trash[0]
		if i >= active {
			continue
		}
		l := &w.lanes[i]
		if v.layout.SumLow >= 0 && l.left >= t && (l.steps+uint64(t))%engine.FoldEvery == 0 {
			w.fold(l.words[at:at+v.layout.MemberWords], i)
		}
		if l.left == t || end && l.left > t {
			w.stores[i] = w.slots[i]
			store = true
		}
	}
	if store {
		w.store(m, w.stores[:lanes])
	}
}
