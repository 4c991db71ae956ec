package reservoir

import (
	"math"

	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// advanceChunk takes the next samples of the tile's lanes, at most one chunk,
// through the item's members. Lanes are in order of their length, so those
// with samples left are the first ones.
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
	lanes := w.v.set.Narrow.Lanes
	if active > w.v.narrows {
		lanes = w.v.set.Wide.Lanes
	}
	w.gather(c, active, lanes, n)
	w.transform(active, lanes, n)
	w.findCuts(active, n)
	for m := it.first; m < it.last; m++ {
		w.advanceMember(m, it.last, active, lanes, n)
	}
	for i := range w.lanes[:active] {
		l := &w.lanes[i]
		k := min(n, l.left)
		l.from, l.left, l.steps = l.from+k, l.left-k, l.steps+uint64(k)
	}
}

// gather brings n samples of every lane side by side into raw, and the sample
// before them. Lanes that end sooner read on into samples of other runs, whose
// result is never stored: the inputs have all been checked to be finite.
func (w *worker) gather(c *call, active, lanes, n int) {
	channels, l := w.v.net.Spec.Channels, &w.v.layout
	for i := range lanes {
		w.rows[i], w.source[i] = &w.zero[0], &w.zero[0]
		if i >= active {
			continue
		}
		a := &w.lanes[i]
		w.rows[i] = &a.row[0]
		have := c.inputs[a.from*channels:]
		if len(have) < n*channels {
			tail := w.tails[i*w.chunk*channels:][:n*channels]
			copy(tail, have)
			have = tail
		}
		w.source[i] = wordsOf(have)
	}
	w.load(w.raw[channels*lanes:], 4*lanes, w.source[:lanes], 0, n*channels)
	if l.Previous < 0 {
		return
	}
	for i := range active {
		if a := &w.lanes[i]; a.from > int(c.runs[a.run].From) {
			w.source[i] = wordsOf(c.inputs[(a.from-1)*channels:])
		} else {
			w.source[i] = &a.row[l.Previous]
		}
	}
	w.load(w.raw, 4*lanes, w.source[:lanes], 0, channels)
}

// load copies n words of every lane's row, from word on, into a tile.
func (w *worker) load(dst []float32, stride int, rows []*uint32, word, n int) {
	vector := w.v.set.Vector
	for i := 0; i < len(rows); i += vector {
		w.v.set.Load(&dst[i], stride, &rows[i], 4*word, n)
	}
}

// transform computes the inputs of n samples of all lanes; see
// Network.Transform.
func (w *worker) transform(active, lanes, n int) {
	net := w.v.net
	s, norm := &net.Spec, &net.Norm
	if !s.Standardise && !s.Difference {
		w.x = w.raw[s.Channels*lanes:]
		return
	}
	for t := range n {
		raw := w.raw[(t+1)*s.Channels*lanes:][:s.Channels*lanes]
		x := w.x[t*s.Inputs()*lanes:][:s.Inputs()*lanes]
		for c := range s.Channels {
			in, out := raw[c*lanes:(c+1)*lanes], x[c*lanes:(c+1)*lanes]
			if !s.Standardise {
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
	if !s.Difference {
		return
	}
	for i := range w.lanes[:active] {
		if w.lanes[i].steps == 0 { // the first sample has no difference
			for c := range s.Channels {
				w.x[(s.Channels+c)*lanes+i] = 0
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
		if t := FoldEvery - int(l.steps%FoldEvery); sums && t <= n {
			w.cuts[t] = true
		}
	}
}

// member prepares args for member m in tiles of so many lanes.
func (w *worker) member(m, lanes int) {
	v, a := w.v, &w.args
	member := &v.net.Members[m]
	v.set.Use(a, &v.members[m], lanes)
	a.Selected, a.Depth = len(member.Inputs), len(member.Inputs)+v.net.Spec.Units
	a.Gain, a.Keep = member.Gain, member.Keep
	a.Flags &^= kernel.KeepNot1
	if a.Keep != 1 {
		a.Flags |= kernel.KeepNot1
	}
	for i, c := range member.Inputs {
		w.offsets[i] = 4 * lanes * int(c)
	}
}

// advanceMember takes the chunk through one member.
func (w *worker) advanceMember(m, last, active, lanes, n int) {
	v := w.v
	s := &v.net.Spec
	at := v.layout.Member(m)
	inputs := v.net.Members[m].Inputs
	shape := &v.set.Narrow
	if lanes != shape.Lanes {
		shape = &v.set.Wide
	}
	a := &w.args
	a.Cur, a.Next = &w.cur[0], &w.nxt[0]
	a.CurState, a.NextState = &w.cur[len(inputs)*lanes], &w.nxt[len(inputs)*lanes]
	a.Inputs, a.InputStep = kernel.Address(w.x), 4*s.Inputs()*lanes
	w.member(m, lanes)
	steps := shape.Steps
	if s.Kind == RESN {
		steps = shape.Ring
	}

	w.load(w.cur[len(inputs)*lanes:], 4*lanes, w.rows[:lanes], at+v.layout.State, s.Units)
	w.moveSums(lanes, at, w.rows[:lanes], v.set.Load)
	if n <= prefetchSteps {
		w.prefetch(m+1, last, active)
	}
	most := max(1, int(callFlops/float64(2*lanes*s.Units*a.Depth)))
	for t := 0; t < n; {
		from := t
		for t++; !w.cuts[t] && t-from < most; t++ {
		}
		a.Count = t - from
		steps(a)
		if w.cuts[t] {
			w.settle(m, active, lanes, t, t == n)
		}
	}
}

// With so few samples of a tile its rows take longer to come from memory than
// they are worked on: they are asked for one member or tile ahead.
const prefetchSteps = 8

// prefetch asks for the rows' words of member m, or, where m is beyond the
// item's members, for the next item's first; but not for the high-level sums,
// which a sample in 256 touches.
func (w *worker) prefetch(m, last, active int) {
	l := &w.v.layout
	rows, at := w.rows[:active], l.Member(m)
	if m >= last {
		rows, at = w.next[:w.nexts], 0
	}
	if len(rows) == 0 {
		return
	}
	for from := 0; from < l.MemberWords; {
		to := from + w.v.units
		if from != l.SumHigh && from != l.SquareHigh {
			for to < l.MemberWords && to != l.SumHigh && to != l.SquareHigh {
				to += w.v.units
			}
			w.v.set.Prefetch(&rows[0], len(rows), 4*(at+from), 4*(to-from))
		}
		from = to
	}
}

// moveSums moves the accumulators of all lanes from or to rows, for a member
// whose words begin at at.
func (w *worker) moveSums(lanes, at int, rows []*uint32, move func(*float32, int, **uint32, int, int)) {
	vector := w.v.set.Vector
	for k, kind := range w.v.kinds() {
		if kind.at < 0 {
			continue
		}
		for i := 0; i < lanes; i += vector {
			move(&w.sums[i*kernel.Kinds+k*vector], 4*lanes*kernel.Kinds, &rows[i], 4*(at+kind.at), w.v.net.Spec.Units)
		}
	}
}

// settle folds the sums that are due after t samples of the chunk, and stores
// the lanes that end there, or all that have not ended where the chunk ends.
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
		if v.layout.SumLow >= 0 && l.left >= t && (l.steps+uint64(t))%FoldEvery == 0 {
			w.fold(l.row[at:at+v.layout.MemberWords], i, lanes)
		}
		if l.left == t || end && l.left > t {
			w.stores[i] = w.rows[i]
			store = true
		}
	}
	if !store {
		return
	}
	state := w.cur
	if w.args.CurState != &w.cur[w.args.Selected*lanes] {
		state = w.nxt
	}
	for i := 0; i < lanes; i += v.set.Vector {
		v.set.Store(&state[w.args.Selected*lanes+i], 4*lanes, &w.stores[i], 4*(at+v.layout.State), v.net.Spec.Units)
	}
	w.moveSums(lanes, at, w.stores[:lanes], v.set.Store)
}

// fold adds a lane's low-level sums to the high-level sums in its row.
func (w *worker) fold(words []uint32, lane, lanes int) {
	l, vector := &w.v.layout, w.v.set.Vector
	for k, high := range [kernel.Kinds]int{l.SumHigh, -1, -1, l.SquareHigh} {
		if high < 0 {
			continue
		}
		first := lane/vector*vector*kernel.Kinds + k*vector + lane%vector
		for u := range w.v.net.Spec.Units {
			low := &w.sums[first+u*lanes*kernel.Kinds]
			words[high+u] = math.Float32bits(float32frombits(words[high+u]) + *low)
			*low = 0
		}
	}
}
