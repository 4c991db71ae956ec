package reservoir

import (
	"slices"
	"sync/atomic"
)

// plan turns the runs of a call into items of work. Runs of one slot must
// keep their order, so they fall into rounds: round k holds each slot's k-th
// run. Within a round runs are sorted by length, longest first, so that the
// streams of a tile end together, and cut into tiles; where there are fewer
// tiles than threads a tile's members are shared out.
//
// All memory is kept from call to call.
type plan struct {
	lanes, members, threads int
	narrow                  bool    // narrow tiles hide the latency of a multiply-add
	perSample, perEmit      float64 // multiply-adds

	round  []int32 // of each slot's last run in this call, valid where stamp is the call's
	stamp  []uint32
	call   uint32
	of     []int32 // round of each run
	score  []int32 // number of emitting runs before each run
	order  []int32 // runs by round, then length
	starts []int32 // of each round in order, and the end
	count  []int32
	tiles  []tile
	work   []item
}

// enough is how many multiply-adds each thread of a round must have: some
// 110 µs on AVX2. Waking a thread costs the caller 10 µs, and on a busy machine
// it starts 70 µs later (Zen 3, 2 vCPUs).
const enough = 4e6

// tile is the runs of one tile of streams. Its last item to end commits it.
type tile struct {
	runs   []int32
	shared bool         // by several items
	left   atomic.Int32 // items, if shared
}

// item is some members of one tile.
type item struct {
	tile        *tile
	first, last int // members [first, last)
}

func (p *plan) init(v *Vector, threads int) {
	s := &v.net.Spec
	p.lanes, p.members, p.threads = v.set.Wide.Lanes, s.Members, threads
	p.narrow = v.set.Rows >= 8 // units of four cycles, two a cycle
	recurrent := s.Units
	if s.Kind == RESN {
		recurrent = 20 // one product, but as much again as a tanh and the loop take
	}
	p.perSample = float64(s.Members) * float64(s.Units) * float64(recurrent+s.Inputs())
	p.round, p.stamp = make([]int32, v.slots), make([]uint32, v.slots)
}

// cut plans a call.
func (p *plan) cut(runs []Run) {
	p.call++
	if p.call == 0 { // wrapped around: old stamps could be taken for new ones
		clear(p.stamp)
		p.call = 1
	}
	n := len(runs)
	p.of, p.score, p.order = grow(p.of, n), grow(p.score, n), grow(p.order, n)
	p.starts = append(p.starts[:0], 0)
	emits := int32(0)
	for i, r := range runs {
		k := int32(0)
		if p.stamp[r.Slot] == p.call {
			k = p.round[r.Slot] + 1
		}
		p.stamp[r.Slot], p.round[r.Slot], p.of[i] = p.call, k, k
		for int(k)+1 >= len(p.starts) {
			p.starts = append(p.starts, 0)
		}
		p.starts[k+1]++
		p.score[i] = emits
		if r.Emit {
			emits++
		}
	}
	for k := 1; k < len(p.starts); k++ {
		p.starts[k] += p.starts[k-1]
	}
	p.count = append(p.count[:0], p.starts...)
	for i := range runs {
		k := p.of[i]
		p.order[p.count[k]] = int32(i)
		p.count[k]++
	}
	for k := range p.rounds() {
		p.sort(runs, p.order[p.starts[k]:p.starts[k+1]])
	}
}

// rounds is how many rounds the planned call has.
func (p *plan) rounds() int { return len(p.starts) - 1 }

// sort puts the longest runs first, unless they are in order already.
func (p *plan) sort(runs []Run, order []int32) {
	length := func(i int32) int { return int(runs[i].To - runs[i].From) }
	sorted := true
	for k := 1; k < len(order) && sorted; k++ {
		sorted = length(order[k-1]) >= length(order[k])
	}
	if sorted {
		return
	}
	slices.SortStableFunc(order, func(a, b int32) int { return length(b) - length(a) })
}

// items cuts a round into work, and says on how many threads it is worth it.
func (p *plan) items(runs []Run, round int) (work []item, threads int) {
	order := p.order[p.starts[round]:p.starts[round+1]]
	amount := p.amount(runs, order)
	threads = max(1, min(p.threads, int(amount/enough)))
	lanes := p.lanes
	// Two narrow tiles on two threads where one wide tile would leave a thread
	// idle, if a narrow one is no slower a lane.
	for p.narrow && lanes > p.lanes/2 && len(order) <= lanes*(threads-1) && p.members < threads && amount >= 2*enough*float64(threads) {
		lanes /= 2
	}
	n := (len(order) + lanes - 1) / lanes
	shares := 1
	if n < threads {
		shares = min(p.members, (threads+n-1)/n)
	}
	if cap(p.tiles) < n {
		p.tiles = make([]tile, n+n/2)
	}
	p.work = p.work[:0]
	for k := range n {
		t := &p.tiles[:n][k]
		t.runs = order[k*lanes : min((k+1)*lanes, len(order))]
		t.shared = shares > 1
		if t.shared {
			t.left.Store(int32(shares))
		}
		for m := range shares {
			p.work = append(p.work, item{t, p.members * m / shares, p.members * (m + 1) / shares})
		}
	}
	return p.work, threads
}

// amount is the multiply-adds of the runs, or more than enough for all threads.
func (p *plan) amount(runs []Run, order []int32) float64 {
	amount, most := 0.0, 2*enough*float64(p.threads)
	for _, i := range order {
		r := &runs[i]
		amount += float64(r.To-r.From) * p.perSample
		if r.Emit {
			amount += p.perEmit
		}
		if amount >= most {
			break
		}
	}
	return amount
}

func grow[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
