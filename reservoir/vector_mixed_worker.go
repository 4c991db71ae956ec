package reservoir

import (
	"math"

	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// mixedWorker advances tiles of streams of kind mixed: chunk by chunk, block by
// block of members, stream by stream. It owns every buffer it needs.
type mixedWorker struct {
	v      *mixedVector
	width  int // of one input in a series
	runs   [mixedStreams]Run
	lanes  [mixedStreams]mixedLane
	sample []float32 // transformed
	values []float32 // of a block's inputs, by sample, then input, then member
	call   kernel.MixedSteps

	emission emission
}

// mixedLane is a stream of the tile in hand.
type mixedLane struct {
	state  []uint32
	begin  int    // the run's first sample
	from   int    // its next,
	left   int    // how many are to go,
	n      int    // and how many of them are in the chunk
	before uint64 // samples of the sequence before the run,
	steps  uint64 // and before the chunk
	// series holds for each transformed input its values before the chunk, as many
	// as there are lags, and those of the chunk.
	series []float32
}

func newMixedWorker(v *mixedVector) *mixedWorker {
	w, most := &mixedWorker{v: v, width: v.seriesWidth(), sample: make([]float32, v.net.Spec.Inputs())}, 0
	for i := range w.lanes {
		w.lanes[i].series = make([]float32, len(w.sample)*w.width)
	}
	for i := range v.blocks {
		most = max(most, v.blocks[i].inputs)
	}
	w.values = kernel.Aligned(mixedChunk * most * laneCount)
	w.call.Signs, w.call.Held = &kernel.Aligned(kernel.MixedRoom)[0], &kernel.Aligned(kernel.MixedRoom)[0]
	w.call.Values = &w.values[0]
	w.emission.init(&v.vectorPool)
	return w
}

// forget implements itemWorker.
func (w *mixedWorker) forget() {}

// advance implements itemWorker.
func (w *mixedWorker) advance(c *call, it, _ *item) {
	runs := c.list(it.tile, w.runs[:])
	w.open(it, runs)
	for active := len(runs); ; { // the longest first
		for active > 0 && w.lanes[active-1].left == 0 {
			active--
		}
		if active == 0 {
			break
		}
		w.advanceChunk(c, it, w.lanes[:active])
	}
	if !it.tile.shared || it.tile.left.Add(-1) == 0 {
		w.commit(c, it.tile, runs)
	}
}

// open takes the runs into the lanes and resets what the item owns of their
// states.
func (w *mixedWorker) open(it *item, runs []Run) {
	v := w.v
	for i := range runs {
		r, l := &runs[i], &w.lanes[i]
		l.state, l.begin, l.from, l.left, l.n = v.state(r.Slot), int(r.From), int(r.From), int(r.To-r.From), 0
		l.before = uint64(v.book[r.Slot].steps)
		if r.Reset {
			l.before = 0
			v.layout.mixed.resetBlocks(&v.layout, l.state, it.first, it.last)
		}
		l.steps = l.before
	}
}

// advanceChunk takes the lanes' next samples, at most a chunk of each, through the
// item's blocks. No lane's reach over a sample after which its stride doubles.
func (w *mixedWorker) advanceChunk(c *call, it *item, lanes []mixedLane) {
	for i := range lanes {
		w.load(c, &lanes[i])
	}
	for i := it.first; i < it.last; i++ {
		for k := range lanes {
			w.advanceBlock(i, &lanes[k])
		}
	}
	for i := range lanes {
		l := &lanes[i]
		doubles := l.steps+uint64(l.n) == thinAt*stride(l.steps+1)
		l.from, l.left, l.steps = l.from+l.n, l.left-l.n, l.steps+uint64(l.n)
		if doubles {
			w.halve(it, l.state)
		}
	}
}

// load puts the past inputs and the next samples, transformed, into a lane's series.
func (w *mixedWorker) load(c *call, l *mixedLane) {
	v, m := w.v, w.v.layout.mixed
	at := int(l.steps % uint64(m.lags))
	for i := range m.inputs {
		past := l.series[i*w.width:][:m.lags]
		switch ring := floatsOf(l.state[m.ring+i*m.lags:], m.lags); {
		case l.n > 0: // a chunk before this one
			copy(past, l.series[i*w.width+l.n:])
		case l.before == 0:
			clear(past)
		default:
			copy(past[copy(past, ring[at:]):], ring[:at]) // the oldest first
		}
	}
	l.n = int(min(mixedChunk, uint64(l.left), thinAt*stride(l.steps+1)-l.steps))
	var previous []float32
	switch at := v.layout.Previous; {
	case at < 0 || l.steps == 0:
	case l.from > l.begin:
		previous = c.inputs[(l.from-1)*v.channels:]
	default:
		previous = floatsOf(l.state[at:], v.channels)
	}
	for t := range l.n {
		sample := c.inputs[(l.from+t)*v.channels:][:v.channels]
		v.net.Transform(w.sample, sample, previous)
		previous = sample
		for i, x := range w.sample {
			l.series[i*w.width+m.lags+t] = x
		}
	}
}

// advanceBlock takes a lane's chunk through a block.
func (w *mixedWorker) advanceBlock(block int, l *mixedLane) {
	v, b, s := w.v, &w.v.blocks[block], &w.call
	v.kernels.Gather(&w.values[0], &l.series[0], &b.taps[0], b.inputs, l.n)
	s.Weights, s.State = &b.weights[0], &l.state[v.layout.First+block*blockWords]
	s.Bits = &l.state[v.layout.mixed.signs+block*signWords]
	s.Inputs, s.Count = b.inputs, l.n
	s.Number, s.Mask = int(l.steps+1), int(stride(l.steps+1)-1)
	b.run(s)
}

// commit writes what belongs to all blocks of the tile's states, and the scores of
// its runs. Every item of the tile has ended.
func (w *mixedWorker) commit(c *call, t *tile, runs []Run) {
	v := w.v
	takeSamples(v.book, v.states, v.stride, runs)
	for i := range runs {
		r, l := &runs[i], &w.lanes[i]
		if v.layout.Previous >= 0 {
			c.setPrevious(l.state[v.layout.Previous:][:v.channels], r)
		}
		w.keep(l)
	}
	w.emission.commit(c, t, runs)
}

// keep leaves the past of a lane's next sample in its state's ring.
func (w *mixedWorker) keep(l *mixedLane) {
	m := w.v.layout.mixed
	if l.before == 0 {
		clear(l.state[m.ring : m.ring+m.inputs*m.lags])
	}
	n := min(m.lags, int(l.steps-l.before))
	at := int((l.steps - uint64(n)) % uint64(m.lags))
	for i := range m.inputs {
		ring, last := floatsOf(l.state[m.ring+i*m.lags:], m.lags), l.series[i*w.width+m.lags+l.n-n:][:n]
		copy(ring, last[copy(ring[at:], last):])
	}
}

// halve makes sums and counts of the item's blocks those of half as many samples.
func (w *mixedWorker) halve(it *item, state []uint32) {
	for i := it.first; i < it.last; i++ {
		block := state[w.v.layout.First+i*blockWords:][:blockWords]
		for w := blockSum; w < blockMax; w++ {
			block[w] = math.Float32bits(float32(math.Float32frombits(block[w]) * .5))
		}
		for w := blockCounts; w < blockWords; w++ {
			block[w] = block[w] >> 1 &^ 0x8000 // both halves
		}
	}
}
