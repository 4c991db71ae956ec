package kernels

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Batch is a call's runs as the kernels take them, cut into rounds. All memory
// is kept from call to call.
type Batch struct {
	Runs   []Run    // by round; within a round, longest first
	Emits  []uint32 // by round: numbers, within the round, of the emitting runs
	Scores int      // scores of the call
	Rounds []Round

	most  int
	round []uint32 // of each slot's last run in this call, valid if stamp is the call's
	stamp []uint32
	call  uint32
	of    []uint32 // round of each run
	order []uint32
	count []uint32
}

// Round is a part of a batch in which every slot appears once.
type Round struct {
	First, Runs      int // of Batch.Runs
	FirstEmit, Emits int // of Batch.Emits
}

// NewBatch makes a batch for a pool of slots. No round gets more than mostRuns
// runs (0: no limit), so that Work can be of a fixed size.
func NewBatch(slots, mostRuns int) *Batch {
	return &Batch{most: mostRuns, round: make([]uint32, slots), stamp: make([]uint32, slots)}
}

// Cut plans a call that engine.CheckCall has passed. taken holds the samples
// of each slot before the call and is brought up to date.
func (b *Batch) Cut(runs []reservoir.Run, taken []uint64) {
	b.call++
	if b.call == 0 { // wrapped around: old stamps could equal new stamps
		clear(b.stamp)
		b.call = 1
	}
	rounds := b.assign(runs)
	b.sort(runs, rounds)
	b.record(runs, taken)
	b.split(rounds)
}

// assign numbers each run's round and returns how many there are; order is then
// by round, and count[k+1] the end of round k.
func (b *Batch) assign(runs []reservoir.Run) (rounds int) {
	b.of, b.order = resize(b.of, len(runs)), resize(b.order, len(runs))
	b.count = append(b.count[:0], 0)
	for i := range runs {
		slot, k := runs[i].Slot, uint32(0)
		if b.stamp[slot] == b.call {
			k = b.round[slot] + 1
		}
		b.stamp[slot], b.round[slot], b.of[i] = b.call, k, k
		if int(k) == rounds {
			rounds++
			b.count = append(b.count, 0)
		}
		b.count[k+1]++
	}
	for k := range rounds {
		b.count[k+1] += b.count[k]
	}
	// Filling moves each round's start to its end, which is the start of the next round.
	for i := range runs {
		k := b.of[i]
		b.order[b.count[k]] = uint32(i)
		b.count[k]++
	}
	copy(b.count[1:], b.count)
	b.count[0] = 0
	return rounds
}

// sort puts each round's longest runs first, unless the runs are in order already.
func (b *Batch) sort(runs []reservoir.Run, rounds int) {
	length := func(i uint32) int { return int(runs[i].To - runs[i].From) }
	for k := range rounds {
		order := b.order[b.count[k]:b.count[k+1]]
		sorted := true
		for i := 1; i < len(order) && sorted; i++ {
			sorted = length(order[i-1]) >= length(order[i])
		}
		if !sorted {
			slices.SortStableFunc(order, func(i, j uint32) int { return length(j) - length(i) })
		}
	}
}

// record writes Runs in the order found. Scores are numbered in the order
// of the call, samples counted in the order of the rounds.
func (b *Batch) record(runs []reservoir.Run, taken []uint64) {
	b.Runs, b.Scores = resize(b.Runs, len(runs)), 0
	for i := range runs { // of is no longer needed: it holds the scores now
		b.of[i] = uint32(b.Scores)
		if runs[i].Emit {
			b.Scores++
		}
	}
	for at, i := range b.order {
		r := &runs[i]
		out := Run{Slot: uint32(r.Slot), From: uint32(r.From), Count: uint32(r.To - r.From)}
		if r.Reset {
			out.Flags |= RunReset
			taken[r.Slot] = 0
		}
		if r.Emit {
			out.Flags |= RunEmit
			out.Score = b.of[i]
		}
		out.Steps = uint32(taken[r.Slot])
		taken[r.Slot] += uint64(out.Count)
		b.Runs[at] = out
	}
}

// split makes the rounds, none larger than allowed, and lists their emits.
func (b *Batch) split(rounds int) {
	b.Rounds, b.Emits = b.Rounds[:0], b.Emits[:0]
	for k := range rounds {
		first, end := int(b.count[k]), int(b.count[k+1])
		for first < end {
			n := end - first
			if b.most > 0 {
				n = min(n, b.most)
			}
			r := Round{First: first, Runs: n, FirstEmit: len(b.Emits)}
			for i := range n {
				if b.Runs[first+i].Flags&RunEmit != 0 {
					b.Emits = append(b.Emits, uint32(i))
				}
			}
			r.Emits = len(b.Emits) - r.FirstEmit
			b.Rounds = append(b.Rounds, r)
			first += n
		}
	}
}

func resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
