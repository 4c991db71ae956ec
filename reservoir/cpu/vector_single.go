package cpu

import (
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// singleStreams returns the maximum number of streams for which advancing one
// by one, units in the lanes, is faster than a tile of mostly empty lanes. A
// narrow tile's step costs as much as the following number of steps of single
// streams:
//
//	units             10   20   32   50   64   80  100  150  200  400
//	avx512 on Zen 5  2.2  2.8  4.1  5.9  7.8        10  6.0  6.2  7.9
//	avx2 on Zen 3    3.5  4.8  6.3  7.0  8.0  7.9  5.4  5.4  5.7  4.7
//
// Few units do not fill the lanes; from about 110 on (48 kB of level 1 cache)
// or 90 (32 kB) the weights no longer fit, and a tile uses each fetched weight
// for more streams. NEON is not measured and uses the numbers of AVX2.
func singleStreams(s *reservoir.Spec, set *kernel.Set) int {
	if s.Kind == reservoir.RESN {
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
		w.use(m, single)
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

// transformSingle computes the inputs of one lane's next samples, row-major.
// Without a transform the samples are used in place.
func (w *worker) transformSingle(c *call, i int) {
	v, l := w.v, &w.lanes[i]
	n, channels, inputs := min(w.chunk, l.left), v.channels, v.inputs
	raw := c.inputs[l.from*channels : (l.from+n)*channels]
	if !v.transforms {
		l.inputs = raw
		return
	}
	l.inputs = w.single[i*w.chunk*inputs:][:n*inputs]
	var previous []float32
	if v.layout.Previous >= 0 && l.steps > 0 {
		previous = w.sample
		if l.from > l.begin {
			copy(previous, c.inputs[(l.from-1)*channels:])
		} else {
			for k := range previous {
				previous[k] = float32frombits(l.words[v.layout.Previous+k])
			}
		}
	}
	for t := range n {
		sample := raw[t*channels : (t+1)*channels]
		v.net.Transform(l.inputs[t*inputs:(t+1)*inputs], sample, previous)
		previous = sample
	}
}

// advanceSingle takes one lane's chunk through member m, which is in use.
func (w *worker) advanceSingle(m, i int) {
	v, l := w.v, &w.lanes[i]
	n, words := min(w.chunk, l.left), l.words[v.layout.Member(m):][:v.layout.MemberWords]
	w.args.Inputs = kernel.Address(l.inputs)
	w.moveSingle(words, v.set.Spread)
	for done := 0; done < n; {
		k, toFold := n-done, engine.FoldEvery-int((l.steps+uint64(done))%engine.FoldEvery)
		fold := v.layout.SumLow >= 0 && toFold <= k
		if fold {
			k = toFold
		}
		w.steps(k)
		if fold {
			w.fold(words, 0)
		}
		done += k
	}
	w.moveSingle(words, v.set.Collect)
}

// moveSingle moves a single stream's states and sums from or to its slot's words.
func (w *worker) moveSingle(words []uint32, move func(*float32, int, *uint32, int)) {
	v := w.v
	vector := v.set.Vector
	move(w.args.CurState, 4*vector, &words[v.layout.State], v.units)
	for k := range v.sums {
		a := &v.sums[k]
		move(&w.sums[a.kind*vector], 4*kernel.Kinds*vector, &words[a.at], v.units)
	}
}
