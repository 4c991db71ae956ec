package cpu

import (
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"math"
	"unsafe"
)

// The loops over a call's and over a tile's runs are separate functions and not
// inlined: in larger functions the compiler keeps their counters in memory, and
// an iteration takes up to twice as long. In a call of 16 streams with one
// sample each that was a tenth of the time outside arithmetic.

// lookAt reports whether the runs are allowed, of existing slots and samples and
// none of a slot beyond its limit, and whether they are plain, with different
// slots and in order of length, longest first. It stores the call's number in
// the slots and counts emitting runs, in score the number before each run.
//
//go:noinline
func lookAt(book []slot, score []int32, call uint32, samples int, runs []reservoir.Run) (emits int, allowed, plain bool) {
	most, before := reservoir.MaxSteps-uint64(samples), int32(math.MaxInt32)
	plain = true
	for i := range runs {
		r := &runs[i]
		if uint(r.Slot) >= uint(len(book)) {
			return 0, false, false
		}
		s := &book[r.Slot]
		// Unsigned, so that a negative number is too large.
		if uint32(r.From) > uint32(r.To) || uint(uint32(r.To)) > uint(samples) || uint64(s.steps) > most {
			return 0, false, false
		}
		n := r.To - r.From
		if s.call == call || n > before {
			plain = false
		}
		s.call, before = call, n
		if r.Emit {
			score[i] = int32(emits)
			emits++
		}
	}
	return emits, true, plain
}

// equallyLong reports whether no run resets and all have n samples.
//
//go:noinline
func equallyLong(runs []reservoir.Run, n int32) bool {
	for i := range runs {
		if r := &runs[i]; r.Reset || r.To-r.From != n {
			return false
		}
	}
	return true
}

// undisturbed reports whether no slot folds its sums within n samples, or
// begins a sequence with them.
//
//go:noinline
func undisturbed(book []slot, runs []reservoir.Run, n uint64) bool {
	for i := range runs {
		if steps := uint64(book[runs[i].Slot].steps); steps%engine.FoldEvery+n >= engine.FoldEvery || steps == 0 {
			return false
		}
	}
	return true
}

// sameSlots reports whether the runs have these slots, in order.
//
//go:noinline
func sameSlots(runs []reservoir.Run, slots []int32) bool {
	if len(runs) != len(slots) {
		return false
	}
	for i := range runs {
		if runs[i].Slot != slots[i] {
			return false
		}
	}
	return true
}

// pointWords points at a word of the states of the runs' slots.
//
//go:noinline
func pointWords(dst []*uint32, states []uint32, stride, word int, runs []reservoir.Run) {
	for i := range runs {
		dst[i] = &states[int(runs[i].Slot)*stride+word]
	}
}

// pointSamples points at the runs' first samples.
//
//go:noinline
func pointSamples(dst []*uint32, inputs []float32, channels int, runs []reservoir.Run) {
	for i := range runs {
		dst[i] = (*uint32)(unsafe.Pointer(&inputs[int(runs[i].From)*channels]))
	}
}

// takeSamples adds the runs' samples to the counts of their slots.
//
//go:noinline
func takeSamples(book []slot, states []uint32, stride int, runs []reservoir.Run) {
	for i := range runs {
		r := &runs[i]
		s := &book[r.Slot]
		steps := s.steps
		if r.Reset {
			steps = 0
		}
		steps += uint32(r.To - r.From)
		s.steps = steps
		at := int(r.Slot) * stride
		states[at], states[at+1] = steps, 0
	}
}
