package reservoir

import (
	"math"

	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// singleStreams is up to how many streams it is faster to advance one by one,
// units in the lanes, than as a tile of mostly empty lanes. A narrow tile's
// step costs as much as so many single streams' steps:
//
//	units             10   20   32   50   64   80  100  150  200  400
//	avx512 on Zen 5  2.2  2.8  4.1  5.9  7.8        10  6.0  6.2  7.9
//	avx2 on Zen 3    3.5  4.8  6.3  7.0  8.0  7.9  5.4  5.4  5.7  4.7
//
// Few units do not fill the lanes; from about 110 on (48 kB of level 1 cache)
// or 90 (32 kB) the weights no longer fit, and a tile uses each fetched weight
// for more streams. NEON is not measured and goes by AVX2.
func singleStreams(s *Spec, set *kernel.Set) int {
	if s.Kind == RESN {
		if set.RingSingle == nil {
			return 0 // its tile costs little
		}
		return s.Units / ((s.Units + set.Vector - 1) / set.Vector) // all the work is the vectors
	}
	type step struct{ units, streams int }
	steps, more := []step{{20, 2}, {32, 3}, {48, 4}, {60, 6}, {110, 9}}, 6
	if set.Narrow.Lanes == 8 {
		steps, more = []step{{16, 3}, {28, 4}, {44, 6}, {90, 7}}, 5
	}
	for _, step := range steps {
		if s.Units < step.units {
			return step.streams
		}
	}
	return more
}

// advanceSingles takes the next samples of each of the first lanes, at most
// one chunk, through the item's members.
func (w *worker) advanceSingles(c *call, it *item, active int) {
	for i := range w.lanes[:active] {
		w.transformSingle(c, i)
	}
	for m := it.first; m < it.last; m++ {
		w.member(m, 1)
		for i := range w.lanes[:active] {
			w.advanceSingle(m, i)
		}
	}
	for i := range w.lanes[:active] {
		l := &w.lanes[i]
		n := min(w.chunk, l.left)
		l.from, l.left, l.steps = l.from+n, l.left-n, l.steps+uint64(n)
	}
}

// transformSingle makes the inputs of one lane's next samples, row-major. They
// are used in place where there is no transform.
func (w *worker) transformSingle(c *call, i int) {
	net, l := w.v.net, &w.lanes[i]
	s, n := &net.Spec, min(w.chunk, l.left)
	channels, inputs := s.Channels, s.Inputs()
	raw := c.inputs[l.from*channels : (l.from+n)*channels]
	if !s.Standardise && !s.Difference {
		l.inputs = raw
		return
	}
	l.inputs = w.single[i*w.chunk*inputs:][:n*inputs]
	var previous []float32
	if s.Difference && l.steps > 0 {
		previous = w.sample
		if l.from > int(c.runs[l.run].From) {
			copy(previous, c.inputs[(l.from-1)*channels:])
		} else {
			for k := range previous {
				previous[k] = float32frombits(l.row[w.v.layout.Previous+k])
			}
		}
	}
	for t := range n {
		sample := raw[t*channels : (t+1)*channels]
		net.Transform(l.inputs[t*inputs:(t+1)*inputs], sample, previous)
		previous = sample
	}
}

// advanceSingle takes one lane's chunk through one member, whose args are set.
func (w *worker) advanceSingle(m, i int) {
	v, l, a := w.v, &w.lanes[i], &w.args
	s, layout := &v.net.Spec, &v.layout
	words := l.row[layout.Member(m):][:layout.MemberWords]
	vector := 4 * v.set.Vector
	// The states are aligned, the inputs end where they begin.
	first := (a.Selected + 15) / 16 * 16
	a.Cur, a.Next = &w.cur[first-a.Selected], &w.nxt[first-a.Selected]
	a.CurState, a.NextState = &w.cur[first], &w.nxt[first]
	a.Inputs, a.InputStep = kernel.Address(l.inputs), 4*s.Inputs()

	v.set.Spread(a.CurState, vector, &words[layout.State], s.Units)
	for k, kind := range v.kinds() {
		if kind.at >= 0 {
			v.set.Spread(&w.sums[k*v.set.Vector], kernel.Kinds*vector, &words[kind.at], s.Units)
		}
	}
	advance := v.set.Single
	if s.Kind == RESN {
		advance = v.set.RingSingle
	}
	most := max(1, int(callFlops/float64(2*s.Units*a.Depth)))
	for t, n := 0, min(w.chunk, l.left); t < n; {
		a.Count = min(n-t, most)
		toFold := FoldEvery - int((l.steps+uint64(t))%FoldEvery)
		if layout.SumLow >= 0 {
			a.Count = min(a.Count, toFold)
		}
		t += a.Count
		fold := layout.SumLow >= 0 && a.Count == toFold
		advance(a)
		if fold {
			w.foldSingle(words)
		}
	}
	v.set.Collect(a.CurState, vector, &words[layout.State], s.Units)
	for k, kind := range v.kinds() {
		if kind.at >= 0 {
			v.set.Collect(&w.sums[k*v.set.Vector], kernel.Kinds*vector, &words[kind.at], s.Units)
		}
	}
}

// foldSingle adds a single stream's low-level sums to the high-level sums in
// its row.
func (w *worker) foldSingle(words []uint32) {
	l, vector := &w.v.layout, w.v.set.Vector
	for k, high := range [kernel.Kinds]int{l.SumHigh, -1, -1, l.SquareHigh} {
		if high < 0 {
			continue
		}
		for u := range w.v.net.Spec.Units {
			low := &w.sums[u/vector*vector*kernel.Kinds+k*vector+u%vector]
			words[high+u] = math.Float32bits(float32frombits(words[high+u]) + *low)
			*low = 0
		}
	}
}
