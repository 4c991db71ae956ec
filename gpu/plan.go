package gpu

import (
	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels"
)

const (
	// ringDepth pieces are under way at once: one packed, one computed, one
	// copied back.
	ringDepth = 3
	// workBytes bounds the memory of streamed kernels besides the states, mostLength
	// their launches for one run of a piece: one launch for each sample.
	workBytes  = 64 << 20
	mostLength = 1 << 10
	// spareBytes of device memory stay free for readouts and other programs.
	spareBytes = 64 << 20
	// alignment applies to device allocations and to the data of a piece.
	alignment = 256
	// recordBytes is the size of a run in a piece without its samples: a
	// kernels.Run and the number of an emit.
	recordBytes = 24 + 4
)

// limits bound the work under way at once. Tests use smaller limits.
type limits struct {
	samples int // bytes of a piece's samples: copies of a megabyte reach the bus's rate and hide the launch cost
	runs    int // of a piece
	scores  int // bytes of a piece's scores
	window  int // bytes of states read or written at once
}

var defaultLimits = limits{samples: 4 << 20, runs: 1 << 16, scores: 1 << 20, window: 1 << 20}

// plan is an engine's use of memory.
type plan struct {
	stateWords int
	image      int // bytes
	in, out    int // bytes of one piece
	work       int // bytes
	runs       int // of a piece
	samples    int // states of a piece
	round      int // runs of a round; 0: no limit
	length     int // samples of one run in a piece
}

func newPlan(p *kernels.Program, channels int, l limits) plan {
	v := plan{stateWords: p.StateWords(), image: 4 * len(p.Image()), runs: l.runs, out: l.scores}
	v.samples = max(1, l.samples/(4*channels))
	v.length = v.samples
	if one := p.WorkBytes(1); one > 0 {
		v.round = max(1, min(v.runs, workBytes/one))
		v.length = min(v.length, mostLength)
	}
	v.work = p.WorkBytes(v.round)
	v.in = 4*channels*v.samples + recordBytes*v.runs + 2*alignment
	return v
}

// fixed is the device memory in addition to the states.
func (v *plan) fixed() uint64 {
	return uint64(v.image) + uint64(v.work) + ringDepth*uint64(v.in+v.out) + (3+2*ringDepth)*alignment
}

// slots is how many states the engine gets: at least least, more up to most as
// long as half of the free memory is left to others.
func (v *plan) slots(dev cuda.Device, free uint64, least, most int) (int, error) {
	state := 4 * uint64(v.stateWords)
	taken := v.fixed() + spareBytes
	room := uint64(0)
	if free > taken {
		room = (free - taken) / state
	}
	if uint64(least) > room {
		return 0, &MemoryError{Device: dev.Name, Slots: least, Room: int(room), Need: taken + uint64(least)*state, Free: free}
	}
	return max(least, int(min(uint64(most), room/2))), nil
}
