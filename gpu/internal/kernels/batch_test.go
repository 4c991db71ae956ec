package kernels

import (
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestCut: whatever the runs, every one is in some round once, each slot at
// most once a round and in the order of the call, long runs first, no round
// too large; scores and samples are counted in the order of the call.
func TestCut(t *testing.T) {
	const slots = 9
	rng := rand.New(rand.NewPCG(1, 1))
	for _, most := range []int{0, 1, 4} {
		b := NewBatch(slots, most)
		b.call = ^uint32(0) - 5 // wraps around on the way
		taken := make([]uint64, slots)
		for range 200 {
			var runs []reservoir.Run
			for range rng.IntN(30) {
				from := rng.Int32N(50)
				runs = append(runs, reservoir.Run{Slot: rng.Int32N(slots), Reset: rng.IntN(4) == 0, Emit: rng.IntN(2) == 0, From: from, To: from + rng.Int32N(6)})
			}
			want, queues := expectedRuns(runs, taken)
			b.Cut(runs, taken)
			checkBatch(t, b, most, queues, len(runs))
			for slot, n := range want {
				if taken[slot] != n {
					t.Fatalf("slot %d has taken %d samples, want %d", slot, taken[slot], n)
				}
			}
		}
	}
	b, taken := NewBatch(slots, 0), make([]uint64, slots)
	runs := []reservoir.Run{{Slot: 3, To: 2}, {Slot: 1, To: 5, Emit: true}, {Slot: 3, To: 4, Emit: true}}
	b.Cut(runs, taken)
	if n := testing.AllocsPerRun(10, func() { b.Cut(runs, taken) }); n != 0 {
		t.Errorf("Cut allocates %v times, want 0", n)
	}
}

// expectedRuns returns each slot's records in order, and its samples at the end.
func expectedRuns(runs []reservoir.Run, taken []uint64) (counts []uint64, queues map[uint32][]Run) {
	counts, queues = append([]uint64(nil), taken...), map[uint32][]Run{}
	score := uint32(0)
	for _, r := range runs {
		x := Run{Slot: uint32(r.Slot), From: uint32(r.From), Count: uint32(r.To - r.From)}
		if r.Reset {
			x.Flags, counts[r.Slot] = RunReset, 0
		}
		if r.Emit {
			x.Flags |= RunEmit
			x.Score = score
			score++
		}
		x.Steps = uint32(counts[r.Slot])
		counts[r.Slot] += uint64(x.Count)
		queues[x.Slot] = append(queues[x.Slot], x)
	}
	return counts, queues
}

func checkBatch(t *testing.T, b *Batch, most int, queues map[uint32][]Run, total int) {
	t.Helper()
	seen, emits := 0, 0
	for _, r := range b.Rounds {
		if r.First != seen || r.FirstEmit != emits || r.Runs < 1 || most > 0 && r.Runs > most {
			t.Fatalf("round %+v after %d runs and %d emits, at most %d runs allowed", r, seen, emits, most)
		}
		slots := map[uint32]bool{}
		e := 0
		for i, x := range b.Runs[r.First : r.First+r.Runs] {
			if slots[x.Slot] || len(queues[x.Slot]) == 0 || queues[x.Slot][0] != x {
				t.Fatalf("run %+v, want the next of %+v, once a round", x, queues[x.Slot])
			}
			slots[x.Slot] = true
			queues[x.Slot] = queues[x.Slot][1:]
			if i > 0 && x.Count > b.Runs[r.First+i-1].Count {
				t.Fatalf("a run of %d samples after one of %d", x.Count, b.Runs[r.First+i-1].Count)
			}
			if x.Flags&RunEmit != 0 {
				if b.Emits[r.FirstEmit+e] != uint32(i) {
					t.Fatalf("emit %d is run %d, want %d", e, b.Emits[r.FirstEmit+e], i)
				}
				e++
			}
		}
		if e != r.Emits {
			t.Fatalf("%d emits in %+v", e, r)
		}
		seen, emits = seen+r.Runs, emits+r.Emits
	}
	if seen != total || emits != len(b.Emits) || emits != b.Scores {
		t.Fatalf("%d runs and %d emits in rounds, want %d and %d (%d scores)", seen, emits, total, len(b.Emits), b.Scores)
	}
}
