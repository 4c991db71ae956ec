package cpu

import (
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// maxLanes is the largest number of lanes of a tile.
const maxLanes = 32

// worker advances tiles with its own buffers, so that a call allocates nothing.
type worker struct {
	v     *vectorEngine
	chunk int // most samples between loading a tile's states and storing them

	runs   [maxLanes]reservoir.Run // of the current tile, if scattered
	lanes  [maxLanes]lane
	slots  [maxLanes]*uint32 // states of the lanes in hand, for Load and Store
	stores [maxLanes]*uint32
	source [maxLanes]*uint32 // their samples
	next   [maxLanes]*uint32 // states of the probable next item
	nexts  int

	raw, x   []float32 // chunk of samples, one lane each; raw starts with the previous sample
	cur, nxt []float32
	sums     []float32
	pending  []float32
	tails    []float32 // copies of the samples of lanes near the end of the inputs
	zero     []uint32  // a state that nothing writes
	trash    []uint32  // a state that nothing reads
	idle     []uint32  // a state of lanes without a stream, advanced like the others
	cuts     []bool    // cuts[t]: something happens after t samples of the chunk
	single   []float32 // transformed samples of streams advanced one by one
	sample   []float32
	emission emission

	// The call for which args are prepared; see use.
	args          kernel.Steps
	member, shape int
	first         int     // of its states in cur and nxt
	held          []int32 // slots whose states the tile in use has, lane by lane; see hold
}

// lane is the stream in one lane of the current tile.
type lane struct {
	words  []uint32  // of its slot
	begin  int       // the run's first sample
	from   int       // and its next
	left   int       // samples to go
	steps  uint64    // samples taken
	inputs []float32 // the chunk's, if the lane is advanced separately
}

const (
	chunkBytes = 128 << 10 // of transformed inputs: capacity of level 2 caches in addition to states and weights
	maxChunk   = 128
)

func newWorker(v *vectorEngine) *worker {
	s, l := v.net.Spec, v.layout
	lanes := v.set.Wide.Lanes
	w := &worker{v: v, member: -1}
	w.chunk = min(maxChunk, max(1, chunkBytes/(4*lanes*s.Inputs())))
	w.raw = kernel.Aligned((w.chunk + 1) * s.Channels * lanes)
	if v.transforms {
		w.x = kernel.Aligned(w.chunk * s.Inputs() * lanes)
	}
	depth := s.Inputs() + s.Units
	// A single stream's units fill up vectors, after its inputs.
	room := max(depth*lanes, s.Inputs()+s.Units+2*lanes)
	w.cur, w.nxt = kernel.Aligned(room), kernel.Aligned(room)
	w.sums = kernel.Aligned(kernel.Kinds * s.Units * lanes)
	w.pending = kernel.Aligned(2 * kernel.PendingRoom)
	w.tails = make([]float32, lanes*w.chunk*s.Channels)
	w.zero = make([]uint32, max(l.Words, w.chunk*s.Channels))
	w.trash, w.idle = make([]uint32, l.Words), make([]uint32, l.Words)
	w.cuts = make([]bool, w.chunk+1)
	w.emission.init(&v.vectorPool)
	w.sample = make([]float32, s.Channels)
	w.held = make([]int32, 0, maxLanes)
	w.makeRoom()
	w.args = kernel.Steps{Consts: kernel.Consts(), Pending: &w.pending[0], Spare: &w.pending[kernel.PendingRoom], Units: s.Units}
	if len(v.sums) > 0 {
		w.args.Sums = &w.sums[0]
	}
	return w
}

// makeRoom allocates the buffers that depend on the number of single streams.
func (w *worker) makeRoom() {
	if w.v.transforms {
		w.single = make([]float32, w.v.singles*w.chunk*w.v.inputs)
	}
}

// advance implements itemWorker.
func (w *worker) advance(c *call, it, next *item) {
	v := w.v
	w.nexts = 0
	if next != nil && v.far {
		w.nexts = len(next.tile.runs)
		pointWords(w.next[:], v.states, v.layout.Words, v.layout.Member(next.first), c.list(next.tile, w.runs[:]))
	}
	runs := c.list(it.tile, w.runs[:])
	if len(runs) <= v.singles || !w.advanceEven(c, it, next, runs) {
		w.held = w.held[:0]
		w.open(it, runs)
		for w.lanes[0].left > 0 {
			w.advanceChunk(c, it)
		}
	}
	if !it.tile.shared || it.tile.left.Add(-1) == 0 {
		w.commit(c, it.tile, runs)
	}
}

// open puts the runs into the lanes and resets the item's parts of their
// states.
func (w *worker) open(it *item, runs []reservoir.Run) {
	v := w.v
	for i := range runs {
		r, n := &runs[i], &w.lanes[i]
		n.words, n.from, n.left, n.steps = v.state(r.Slot), int(r.From), int(r.To-r.From), uint64(v.book[r.Slot].steps)
		n.begin = n.from
		if r.Reset {
			n.steps = 0
			for m := it.first; m < it.last; m++ {
				v.layout.ResetMember(v.units, n.words, m)
			}
		}
	}
}

// commit writes the common part of the tile's states, and the scores of its
// runs. Every item of the tile has ended.
func (w *worker) commit(c *call, t *tile, runs []reservoir.Run) {
	v := w.v
	takeSamples(v.book, v.states, v.stride, runs)
	if v.layout.Previous >= 0 {
		for i := range runs {
			r := &runs[i]
			c.setPrevious(v.state(r.Slot)[v.layout.Previous:][:v.channels], r)
		}
	}
	w.emission.commit(c, t, runs)
}

// finish implements itemWorker.
func (w *worker) finish(c *call) { w.emission.flush(c) }
