package reservoir

import (
	"math"

	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// Most lanes of any tile.
const maxLanes = 32

// worker advances tiles. It owns every buffer it needs, so that a call
// allocates nothing.
type worker struct {
	v     *Vector
	chunk int // most samples between loading a tile's states and storing them

	lanes  [maxLanes]lane
	rows   [maxLanes]*uint32 // of the lanes in hand, for Load and Store
	stores [maxLanes]*uint32
	source [maxLanes]*uint32 // their samples
	next   [maxLanes]*uint32 // rows of the item that probably comes next
	nexts  int

	raw, x   []float32 // chunk of samples, one lane each; raw starts with the sample before
	cur, nxt []float32
	sums     []float32
	pending  []float32
	tails    []float32 // copies of the samples of lanes near the end of the inputs
	zero     []uint32  // a row nobody writes
	trash    []uint32  // a row nobody reads
	cuts     []bool    // cuts[t]: something happens after t samples of the chunk
	offsets  []int     // kernel.Steps.Select of the member in hand
	single   []float32 // transformed samples of streams advanced one by one
	sample   []float32
	args     kernel.Steps
	emission emission
}

// lane is the stream in one lane of the tile in hand.
type lane struct {
	run    int32
	row    []uint32
	from   int       // next input row
	left   int       // samples to go
	steps  uint64    // samples taken
	inputs []float32 // the chunk's, where the lane is advanced alone
}

const (
	chunkBytes = 128 << 10 // of transformed inputs: what level 2 caches hold beside states and weights
	maxChunk   = 128
	// A kernel call is not preemptible: it ends after about 0.2 ms.
	callFlops = 5e7
)

func newWorker(v *Vector) *worker {
	s, l := v.net.Spec, v.layout
	lanes := v.set.Wide.Lanes
	w := &worker{v: v}
	w.chunk = min(maxChunk, max(1, chunkBytes/(4*lanes*s.Inputs())))
	w.raw = kernel.Aligned((w.chunk + 1) * s.Channels * lanes)
	if s.Standardise || s.Difference {
		w.x = kernel.Aligned(w.chunk * s.Inputs() * lanes)
	}
	depth := s.Inputs() + s.Units
	// A single stream's units fill up vectors, its inputs lie before them.
	room := max(depth*lanes, s.Inputs()+s.Units+2*lanes)
	w.cur, w.nxt = kernel.Aligned(room), kernel.Aligned(room)
	w.sums = kernel.Aligned(kernel.Kinds * max(s.Units, lanes) * lanes)
	w.pending = kernel.Aligned(2 * kernel.PendingRoom)
	w.tails = make([]float32, lanes*w.chunk*s.Channels)
	w.zero = make([]uint32, max(l.Words, w.chunk*s.Channels))
	w.trash = make([]uint32, l.Words)
	w.cuts = make([]bool, w.chunk+1)
	w.offsets = make([]int, s.Inputs())
	w.emission.init(v)
	w.sample = make([]float32, s.Channels)
	w.makeRoom()
	w.args = kernel.Steps{
		Consts: kernel.Consts(), Pending: &w.pending[0], Spare: &w.pending[kernel.PendingRoom],
		Select: &w.offsets[0], Units: s.Units,
	}
	for _, k := range v.kinds() {
		if k.at >= 0 {
			w.args.Flags |= k.flag
			w.args.Sums = &w.sums[0]
		}
	}
	return w
}

// makeRoom allocates what depends on how many streams go one by one.
func (w *worker) makeRoom() {
	if s := &w.v.net.Spec; s.Standardise || s.Difference {
		w.single = make([]float32, w.v.singles*w.chunk*s.Inputs())
	}
}

// kind is an accumulator that rides along in the kernel: its flag and place
// in the row.
type kind struct{ flag, at int }

// kinds are in the order of kernel.Steps.Sums.
func (v *Vector) kinds() [kernel.Kinds]kind {
	l := &v.layout
	return [kernel.Kinds]kind{
		{kernel.Sum, l.SumLow}, {kernel.Positive, l.Positive}, {kernel.Max, l.Max}, {kernel.Square, l.SquareLow},
	}
}

// advance does one item; next is the one this worker probably does after it,
// or nil.
func (w *worker) advance(c *call, it, next *item) {
	w.open(c, it)
	w.nexts = 0
	if next != nil {
		for i, k := range next.tile.runs {
			w.next[i] = &w.v.row(int(c.runs[k].Slot))[w.v.layout.Member(next.first)]
		}
		w.nexts = len(next.tile.runs)
	}
	for w.lanes[0].left > 0 {
		w.advanceChunk(c, it)
	}
	if !it.tile.shared || it.tile.left.Add(-1) == 0 {
		w.commit(c, it.tile)
	}
}

// open takes the tile's runs into the lanes and resets what the item owns of
// their rows.
func (w *worker) open(c *call, it *item) {
	l := &w.v.layout
	for i, k := range it.tile.runs {
		r := &c.runs[k]
		row := w.v.row(int(r.Slot))
		n := lane{run: k, row: row, from: int(r.From), left: int(r.To - r.From), steps: w.v.taken[r.Slot]}
		if r.Reset {
			n.steps = 0
			for m := it.first; m < it.last; m++ {
				l.resetMember(w.v.net.Spec, row, m)
			}
		}
		w.lanes[i] = n
	}
}

// commit writes what belongs to all members of the tile's rows, and the scores
// of its runs. Every item of the tile has ended.
func (w *worker) commit(c *call, t *tile) {
	v := w.v
	l, channels := &v.layout, v.net.Spec.Channels
	for _, k := range t.runs {
		r := &c.runs[k]
		row := v.row(int(r.Slot))
		if r.Reset {
			v.taken[r.Slot] = 0
		}
		v.taken[r.Slot] += uint64(r.To - r.From)
		l.setSteps(row, v.taken[r.Slot])
		if l.Previous >= 0 {
			w.setPrevious(row[l.Previous:l.Previous+channels], c, r)
		}
		if r.Emit && v.width > 0 {
			w.emit(c, row, int(c.score[k])*v.width)
		}
	}
	w.flush(c)
}

// setPrevious keeps a run's last sample for the next difference.
func (w *worker) setPrevious(previous []uint32, c *call, r *Run) {
	if r.From == r.To {
		if r.Reset {
			clear(previous)
		}
		return
	}
	n := len(previous)
	for i, x := range c.inputs[(int(r.To)-1)*n : int(r.To)*n] {
		previous[i] = math.Float32bits(x)
	}
}
