package cpu

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Shapes of tiles.
const (
	single = iota // one stream, its units in the lanes
	narrow        // one vector of streams
	wide          // two
	shapes
)

// callFlops bounds a kernel call, which is not preemptible, to about 0.2 ms.
const callFlops = 5e7

// shape is a tile's size and its kernel.
type shape struct {
	lanes int
	steps func(*kernel.Steps)
}

func shapesOf(set *kernel.Set, kind reservoir.Kind) [shapes]shape {
	if kind == reservoir.RESN {
		return [shapes]shape{{1, set.RingSingle}, {set.Narrow.Lanes, set.Narrow.Ring}, {set.Wide.Lanes, set.Wide.Ring}}
	}
	return [shapes]shape{{1, set.Single}, {set.Narrow.Lanes, set.Narrow.Steps}, {set.Wide.Lanes, set.Wide.Steps}}
}

// member is a member of the network in the form for the kernels.
type member struct {
	kernel.Member
	gain, keep float32
	flags      int
	selected   int           // number of its inputs
	selects    [shapes][]int // byte offset of each in a sample's inputs
	first      [shapes]int   // its states' place in a tile, after its inputs
	most       [shapes]int   // samples a kernel call may take
}

func packMember(v *vectorEngine, m *reservoir.Member) member {
	s := &v.net.Spec
	p := member{
		Member: v.set.Pack(s.Units, len(m.Inputs), m.Bias, m.Input, m.Recurrent, s.Kind == reservoir.RESN),
		gain:   m.Gain, keep: m.Keep, selected: len(m.Inputs),
	}
	for _, a := range v.sums {
		p.flags |= a.flag
	}
	if m.Keep != 1 {
		p.flags |= kernel.KeepNot1
	}
	for i, shape := range v.shapes {
		for _, c := range m.Inputs {
			p.selects[i] = append(p.selects[i], 4*shape.lanes*int(c))
		}
		p.first[i] = p.selected * shape.lanes
		p.most[i] = max(1, int(callFlops/float64(2*shape.lanes*s.Units*(p.selected+s.Units))))
	}
	p.first[single] = (p.selected + 15) / 16 * 16 // states are aligned
	return p
}

// accumulator is an accumulator that the kernel updates.
type accumulator struct {
	kind, flag int // place among kernel.Steps.Sums, and its bit in Flags
	at         int // place in a member's words
	high       int // and of its high-level sum, or -1
}

// sumsOf returns the accumulators in states.
func sumsOf(l *engine.Layout) (has []accumulator) {
	for i, a := range [kernel.Kinds]accumulator{
		{flag: kernel.Sum, at: l.SumLow, high: l.SumHigh},
		{flag: kernel.Positive, at: l.Positive, high: -1},
		{flag: kernel.Max, at: l.Max, high: -1},
		{flag: kernel.Square, at: l.SquareLow, high: l.SquareHigh},
	} {
		if a.kind = i; a.at >= 0 {
			has = append(has, a)
		}
	}
	return has
}

// use prepares args for member m in tiles of a shape. Prepared args stay
// unchanged: the roles of cur and nxt, and the direction of the single-stream
// kernel through the row tiles, may continue.
func (w *worker) use(m, shape int) {
	if w.member == m && w.shape == shape {
		return
	}
	w.member, w.shape = m, shape
	v, p, a := w.v, &w.v.members[m], &w.args
	lanes := v.shapes[shape].lanes
	v.set.Use(a, &p.Member, lanes)
	a.Select, a.Selected, a.Depth = &p.selects[shape][0], p.selected, p.selected+v.units
	a.Gain, a.Keep, a.Flags = p.gain, p.keep, p.flags
	a.InputStep = 4 * v.inputs * lanes
	w.first = p.first[shape]
	before := w.first - p.selected*lanes
	a.Cur, a.Next = &w.cur[before], &w.nxt[before]
	a.CurState, a.NextState = &w.cur[w.first], &w.nxt[w.first]
}

// steps advances the tile in use by n samples, in calls that end soon.
func (w *worker) steps(n int) {
	steps, most := w.v.shapes[w.shape].steps, w.v.members[w.member].most[w.shape]
	for ; n > most; n -= most {
		w.args.Count = most
		steps(&w.args)
	}
	w.args.Count = n
	steps(&w.args)
}

// states returns the newest states of the tile in use.
func (w *worker) states() []float32 {
	if w.args.CurState == &w.cur[w.first] {
		return w.cur[w.first:]
	}
	return w.nxt[w.first:]
}

// load brings member m's unit states and sums from the slots into the tile in
// use, store takes them back.
func (w *worker) load(m int, slots []*uint32) { w.move(m, slots, w.v.set.Load) }

func (w *worker) store(m int, slots []*uint32) { w.move(m, slots, w.v.set.Store) }

func (w *worker) move(m int, slots []*uint32, move func(*float32, int, **uint32, int, int)) {
	v, states := w.v, w.states()
	at, vector, lanes := v.layout.Member(m), v.set.Vector, len(slots)
	for i := 0; i < lanes; i += vector {
		move(&states[i], 4*lanes, &slots[i], 4*(at+v.layout.State), v.units)
		for k := range v.sums {
			a := &v.sums[k]
			move(&w.sums[i*kernel.Kinds+a.kind*vector], 4*lanes*kernel.Kinds, &slots[i], 4*(at+a.at), v.units)
		}
	}
}

// fold adds the low-level sums of one lane of the tile in use to the high-level
// sums in its slot's words.
func (w *worker) fold(words []uint32, lane int) {
	v := w.v
	vector, lanes := v.set.Vector, v.shapes[w.shape].lanes
	for _, a := range v.sums {
		if a.high < 0 {
			continue
		}
		for u := range v.units {
			at := u*lanes + lane
			low := &w.sums[at/vector*vector*kernel.Kinds+a.kind*vector+at%vector]
			words[a.high+u] = math.Float32bits(float32frombits(words[a.high+u]) + *low)
			*low = 0
		}
	}
}
