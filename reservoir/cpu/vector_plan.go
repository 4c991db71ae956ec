package cpu

import (
	"github.com/eusn-stream/eusn-stream/reservoir"
	"slices"
	"sync/atomic"
)

// plan turns the runs of a call into items of work. Runs of one slot must keep
// their order, so they fall into rounds: round k holds each slot's k-th run.
// Within a round runs are sorted by length, longest first, so that the streams
// of a tile end together, and cut into tiles; with fewer tiles than threads a
// tile's members are divided among the threads.
//
// All memory is kept from call to call.
type plan struct {
	lanes, members, threads int
	tiling                  tiling
	perSample, perEmit      float64 // multiply-adds
	enough                  float64 // for a thread

	call   uint32  // number of the last call, for each slot with a run,
	round  []int32 // and the round of the slot's run, unless the call is plain
	emits  int     // emitting runs,
	score  []int32 // for each, the number of earlier emitting runs
	order  []int32 // runs by round, then length
	starts []int32 // of each round in order, and the end
	inRow  bool    // order equals the order of the runs: the call is plain
	of     []int32 // round of each run
	count  []int32
	ranked []int32 // memory of order if sorted,
	listed []int32 // and 0, 1, 2, ... for the order of the runs
	tiles  []tile
	work   []item
}

// tiling selects the tiles that are as quick a stream as full tiles.
type tiling int

const (
	fullTiles tiling = iota
	halfTiles        // if they hide the latency of a multiply-add
	bankTiles        // halfTiles, and quicker for brief runs
	anyTiles         // streams run in sequence
)

// briefRuns: a bank's members are loaded and stored for so few samples that only
// the room in the level 1 cache counts. 40 members of 50 units, 1024 streams:
// with 32 a tile and 1, 2, 4 samples a call .83, .87 and .95 of the rate of 16,
// with 8, 16 and 32 samples 1.0, 1.06 and 1.09 (Zen 5, AVX-512).
const briefRuns = 7

// enoughLane times the lanes of a vector is the minimum of multiply-adds for
// each thread of a round: some 65 µs. A second thread breaks even at three
// quarters of that and begins to gain: 1.16 if both have just enough (Zen 3, 2
// vCPUs, quiet; a busy second vCPU costs the caller 10 µs and starts when it
// can).
const enoughLane = 3e5

// tile is the runs of one tile of streams. Its last item to end commits it.
type tile struct {
	runs   []int32
	list   []reservoir.Run // the same, if consecutive in the call
	shared bool            // by several items
	left   atomic.Int32    // items, if shared
}

// item is some members of one tile.
type item struct {
	tile        *tile
	first, last int // members [first, last)
}

// init makes the plan of an engine with the given slots.
func (p *plan) init(slots, threads, vector int) {
	p.threads, p.round = threads, make([]int32, slots)
	p.enough = enoughLane * float64(vector)
}

// begin takes a number for a call of n runs.
func (p *plan) begin(book []slot, n int) {
	p.call++
	if p.call == 0 { // wrapped around: old numbers could equal new numbers
		for i := range book {
			book[i].call = 0
		}
		p.call = 1
	}
	if cap(p.score) < n {
		p.score = make([]int32, n+n/2)
	}
	p.score = p.score[:n]
}

// plain plans a call of n runs, each of its own slot and the longest first.
func (p *plan) plain(n, emits int) {
	for len(p.listed) < n {
		p.listed = append(p.listed, int32(len(p.listed)))
	}
	p.order = p.listed[:n]
	p.starts = append(p.starts[:0], 0)
	if n > 0 {
		p.starts = append(p.starts, int32(n))
	}
	p.inRow, p.emits = true, emits
}

// cut plans any call.
func (p *plan) cut(book []slot, runs []reservoir.Run) {
	n := len(runs)
	p.begin(book, n)
	p.of, p.ranked = grow(p.of, n), grow(p.ranked, n)
	p.order, p.inRow = p.ranked, false
	p.starts = append(p.starts[:0], 0)
	emits := int32(0)
	for i, r := range runs {
		s, k := &book[r.Slot], int32(0)
		if s.call == p.call {
			k = p.round[r.Slot] + 1
		}
		s.call, p.round[r.Slot], p.of[i] = p.call, k, k
		for int(k)+1 >= len(p.starts) {
			p.starts = append(p.starts, 0)
		}
		p.starts[k+1]++
		if r.Emit {
			p.score[i] = emits
			emits++
		}
	}
	p.emits = int(emits)
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

// sort puts the longest runs first, unless the runs are in order already.
func (p *plan) sort(runs []reservoir.Run, order []int32) {
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

// divide chooses how many lanes a tile of the runs in order has, and on how many threads the
// tiles are worth it.
func (p *plan) divide(runs []reservoir.Run, order []int32) (lanes, threads int) {
	lanes, threads = p.lanes, 1
	if len(order) > 0 {
		if longest := runs[order[0]]; p.tiling == bankTiles && longest.To-longest.From <= briefRuns {
			lanes /= 2
		}
	}
	if p.threads > 1 {
		amount := p.amount(runs, order)
		threads = max(1, min(p.threads, int(amount/p.enough)))
		// Two narrow tiles on two threads instead of a wide tile and an idle
		// thread, if a narrow tile is no slower a lane.
		for (p.tiling == halfTiles || p.tiling == bankTiles) && lanes > p.lanes/2 && len(order) <= lanes*(threads-1) && p.members < threads && amount >= 2*p.enough*float64(threads) {
			lanes /= 2
		}
	}
	if p.tiling == anyTiles {
		lanes = evenTiles(len(order), lanes, threads)
	}
	return lanes, threads
}

// items cuts a round into work, and returns the number of threads worth using.
func (p *plan) items(runs []reservoir.Run, round int) (work []item, threads int) {
	order := p.order[p.starts[round]:p.starts[round+1]]
	lanes, threads := p.divide(runs, order)
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
		first, end := k*lanes, min((k+1)*lanes, len(order))
		t.runs, t.list = order[first:end], nil
		if p.inRow {
			t.list = runs[first:end]
		}
		t.shared = shares > 1
		if !t.shared {
			p.work = append(p.work, item{t, 0, p.members})
			continue
		}
		t.left.Store(int32(shares))
		for m := range shares {
			p.work = append(p.work, item{t, p.members * m / shares, p.members * (m + 1) / shares})
		}
	}
	return p.work, threads
}

// evenTiles is how many streams of n each tile has, at most lanes, so that every
// thread gets as many tiles.
func evenTiles(n, lanes, threads int) int {
	tiles := threads * ((n + lanes*threads - 1) / (lanes * threads))
	return max(1, (n+tiles-1)/max(1, tiles))
}

// amount is the multiply-adds of the runs, or more than enough for all threads.
func (p *plan) amount(runs []reservoir.Run, order []int32) float64 {
	amount, most := 0.0, 2*p.enough*float64(p.threads)
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
