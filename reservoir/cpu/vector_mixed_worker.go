package cpu

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// mixedWorker advances tiles of streams of kind mixed: chunk by chunk, block by
// block of members, stream by stream. It owns all its buffers.
type mixedWorker struct {
	v      *mixedVector
	width  int // of one input in a series
	runs   [mixedStreams]reservoir.Run
	lanes  [mixedStreams]mixedLane
	values []float32 // of a block's inputs, by sample, then input, then member
	call   kernel.MixedSteps
	ahead  [mixedStreams]*uint32 // start of the prefetched words
	back   bool                  // blocks from the last to the first, this time

	emission emission
}

// mixedLane is a stream of the tile in hand.
type mixedLane struct {
	state  []uint32
	begin  int    // the run's first sample
	from   int    // its next,
	left   int    // how many are to go,
	n      int    // and their number in the chunk,
	every  uint64 // this many of them count as one
	before uint64 // samples of the sequence before the run,
	steps  uint64 // and before the chunk
	// series holds for each transformed input the values before the chunk, one for
	// each lag, and the values of the chunk.
	series []float32
}

func newMixedWorker(v *mixedVector) *mixedWorker {
	w, most := &mixedWorker{v: v, width: v.seriesWidth()}, 0
	for i := range w.lanes {
		w.lanes[i].series = make([]float32, v.net.Spec.Inputs()*w.width)
	}
	for i := range v.blocks {
		most = max(most, v.blocks[i].inputs)
	}
	w.values = kernel.Aligned(mixedChunk * most * canon.BlockMembers)
	w.call.Signs, w.call.Held = &kernel.Aligned(kernel.MixedRoom)[0], &kernel.Aligned(kernel.MixedRoom)[0]
	w.call.Values = &w.values[0]
	w.emission.init(&v.vectorPool)
	return w
}

// forget implements itemWorker.
func (w *mixedWorker) forget() {}

// advance implements itemWorker.
func (w *mixedWorker) advance(c *call, it, next *item) {
	if w.v.far && next != nil && next.tile != it.tile {
		w.prefetchPast(c, next.tile)
	}
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

// open puts the runs into the lanes and resets the item's parts of their
// states.
func (w *mixedWorker) open(it *item, runs []reservoir.Run) {
	v := w.v
	for i := range runs {
		r, l := &runs[i], &w.lanes[i]
		l.state, l.begin, l.from, l.left, l.n = v.state(r.Slot), int(r.From), int(r.From), int(r.To-r.From), 0
		l.before = uint64(v.book[r.Slot].steps)
		if r.Reset {
			l.before = 0
			v.layout.Mixed.ResetBlocks(&v.layout, l.state, it.first, it.last)
		}
		l.steps = l.before
	}
}

// advanceChunk takes the lanes' next samples, at most a chunk of each, through the
// item's blocks. No lane's samples cross a sample that doubles its stride.
func (w *mixedWorker) advanceChunk(c *call, it *item, lanes []mixedLane) {
	for i := range lanes {
		w.load(c, &lanes[i])
	}
	w.back = !w.back && w.v.turns
	for n := range it.last - it.first {
		i := it.first + n
		if w.back {
			i = it.last - 1 - n
		}
		b := &w.v.blocks[i]
		w.call.Weights, w.call.Inputs = &b.weights[0], b.inputs
		for k := range lanes {
			if w.v.far {
				w.prefetch(it, i, k+mixedAhead, lanes)
			}
			w.advanceBlock(b, &lanes[k])
		}
	}
	for i := range lanes {
		l := &lanes[i]
		l.from, l.left, l.steps = l.from+l.n, l.left-l.n, l.steps+uint64(l.n)
		if l.steps == engine.ThinAt*l.every {
			w.halve(it, l.state)
		}
	}
}

// mixedAhead is the number of block visits between the prefetch of a state and its
// use, if states are far. A load from memory takes longer than a visit of one
// sample, and the level 2 cache has room for more prefetched states.
const mixedAhead = 4

// prefetch prefetches the words of a block in the state of a lane; for a lane
// beyond the last, the words of the next block in the state of the following lane.
func (w *mixedWorker) prefetch(it *item, block, lane int, lanes []mixedLane) {
	for lane >= len(lanes) {
		lane -= len(lanes)
		block++
	}
	if block < it.last {
		w.ahead[0] = &lanes[lane].state[w.v.layout.First+block*engine.BlockWords]
		w.v.set.Prefetch(&w.ahead[0], 1, 0, 4*engine.BlockWords)
	}
}

// prefetchPast prefetches the words before the blocks in the states of a tile.
func (w *mixedWorker) prefetchPast(c *call, t *tile) {
	runs := c.list(t, w.runs[:])
	pointWords(w.ahead[:], w.v.states, w.v.stride, 0, runs)
	w.v.set.Prefetch(&w.ahead[0], len(runs), 0, 4*w.v.layout.First)
}

// load puts the past inputs and the next samples, transformed, into a lane's series.
func (w *mixedWorker) load(c *call, l *mixedLane) {
	v, m := w.v, w.v.layout.Mixed
	at := int(l.steps % uint64(m.Lags))
	for i := range m.Inputs {
		past := l.series[i*w.width:][:m.Lags]
		switch ring := floatsOf(l.state[m.Ring+i*m.Lags:], m.Lags); {
		case l.n > 0: // an earlier chunk
			copy(past, l.series[i*w.width+l.n:])
		case l.before == 0:
			clear(past)
		default:
			copy(past[copy(past, ring[at:]):], ring[:at]) // the oldest first
		}
	}
	l.every = engine.Stride(l.steps + 1)
	l.n = int(min(mixedChunk, uint64(l.left), engine.ThinAt*l.every-l.steps))
	var previous []float32
	switch at := v.layout.Previous; {
	case at < 0 || l.steps == 0:
	case l.from > l.begin:
		previous = c.inputs[(l.from-1)*v.channels:]
	default:
		previous = floatsOf(l.state[at:], v.channels)
	}
	transformAll(v.net, l.series[m.Lags:], w.width, l.n, c.inputs[l.from*v.channels:], previous)
}

// advanceBlock takes a lane's chunk through a block.
func (w *mixedWorker) advanceBlock(b *mixedBlock, l *mixedLane) {
	s := &w.call
	w.v.kernels.Gather(s.Values, &l.series[0], &b.taps[0], b.inputs, l.n)
	s.State, s.Bits = &l.state[b.words], &l.state[b.signs]
	s.Count, s.Number, s.Mask = l.n, int(l.steps+1), int(l.every-1)
	b.run(s)
}

// commit writes the common part of the tile's states, and the scores of its runs.
// Every item of the tile has ended.
func (w *mixedWorker) commit(c *call, t *tile, runs []reservoir.Run) {
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

// keep stores the past of a lane's next sample in its state's ring.
func (w *mixedWorker) keep(l *mixedLane) {
	m := w.v.layout.Mixed
	if l.before == 0 {
		clear(l.state[m.Ring : m.Ring+m.Inputs*m.Lags])
	}
	n := min(m.Lags, int(l.steps-l.before))
	at := int((l.steps - uint64(n)) % uint64(m.Lags))
	for i := range m.Inputs {
		ring, last := floatsOf(l.state[m.Ring+i*m.Lags:], m.Lags), l.series[i*w.width+m.Lags+l.n-n:][:n]
		copy(ring, last[copy(ring[at:], last):])
	}
}

// halve makes sums and counts of the item's blocks equal to half as many samples.
func (w *mixedWorker) halve(it *item, state []uint32) {
	for i := it.first; i < it.last; i++ {
		block := state[w.v.layout.First+i*engine.BlockWords:][:engine.BlockWords]
		for w := engine.BlockSum; w < engine.BlockMax; w++ {
			block[w] = math.Float32bits(float32(math.Float32frombits(block[w]) * .5))
		}
		for w := engine.BlockCounts; w < engine.BlockWords; w++ {
			block[w] = block[w] >> 1 &^ 0x8000 // both halves
		}
	}
}

// finish implements itemWorker.
func (w *mixedWorker) finish(c *call) { w.emission.flush(c) }

// transformAll is Network.Transform of n samples, to rows of inputs: input i begins at
// dst[i*width]. previous is the sample before the first, nil without such a sample.
func transformAll(n *reservoir.Network, dst []float32, width, steps int, samples, previous []float32) {
	c := n.Spec.Channels
	for i := range c {
		row, mean, scale := dst[i*width:][:steps], float32(0), float32(1) // which change no bit
		if n.Spec.Standardize {
			mean, scale = n.Norm.Mean[i], n.Norm.Scale[i]
		}
		for t := range row {
			row[t] = (samples[t*c+i] - mean) * scale
		}
		if !n.Spec.Difference {
			continue
		}
		row, scale = dst[(c+i)*width:][:steps], n.Norm.Diff[i]
		var before float32
		if previous != nil {
			before = previous[i]
		}
		for t := range row {
			x := samples[t*c+i]
			row[t] = (x - before) * scale
			before = x
		}
		if previous == nil {
			row[0] = 0
		}
	}
}
