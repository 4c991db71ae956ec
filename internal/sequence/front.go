package sequence

import (
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Front runs the samples of streams through a model's front end, which restarts with each
// sequence. Windows overlap, so there it continues from the stream's first sample. It
// belongs to one goroutine, which may use a Front for any number of streams: the caller
// keeps their states. A nil Front changes nothing.
type Front struct {
	front    *reservoir.Front
	runsOn   bool
	channels int
	rows     []int32 // for the last samples: number of output rows before each sample, and after the last

	statistics []float32 // after the last sample of each cut with a prediction, of the last call of Run
}

// NewFront returns the front end of a model, nil if the model has none.
func NewFront(f *reservoir.Front, p reservoir.Policy, channels int) *Front {
	if f == nil {
		return nil
	}
	return &Front{front: f, runsOn: p.Kind == reservoir.Window, channels: channels, rows: []int32{0}}
}

// StateSize returns the number of values of a stream's state.
func (f *Front) StateSize() int {
	if f == nil {
		return 0
	}
	return f.front.StateSize(f.channels)
}

// Place computes the output rows of the next count samples of a stream, for RowsBefore.
// before is Sequencer.N before the samples were cut, cuts are the cuts of the samples. It
// returns the number of output rows.
func (f *Front) Place(before int64, cuts []Cut, count int) int {
	if f == nil {
		return count
	}
	f.rows = append(f.rows[:0], 0)
	f.eachSequence(before, cuts, count, func(_, from, to int, n int64) {
		first := int64(f.rows[from]) - f.front.Out(n)
		for r := from; r < to; r++ {
			n++
			f.rows = append(f.rows, int32(first+f.front.Out(n)))
		}
	})
	return int(f.rows[count])
}

// Run is Place, and transforms the samples, row-major. The output rows are at the
// beginning of samples.
func (f *Front) Run(state []float64, before int64, cuts []Cut, samples []float32) int {
	if f == nil {
		return 0
	}
	c := f.channels
	out := f.Place(before, cuts, len(samples)/c)
	width := f.front.StatisticsSize(c)
	f.statistics = slices.Grow(f.statistics[:0], len(cuts)*width)[:len(cuts)*width]
	f.eachSequence(before, cuts, len(samples)/c, func(cut, from, to int, n int64) {
		got := f.front.Run(state, n, samples[from*c:to*c], c)
		copy(samples[int(f.rows[from])*c:], samples[from*c:(from+got)*c])
		if width > 0 && cut >= 0 && cuts[cut].Emit {
			f.front.Statistics(f.statistics[cut*width:(cut+1)*width], state, c)
		}
	})
	return out
}

// Statistics returns the statistics (reservoir.Front.Statistics) after the samples of a
// cut with a prediction, valid until the next call of Run. Empty: the front end has none.
func (f *Front) Statistics(cut int) []float32 {
	if f == nil {
		return nil
	}
	width := f.front.StatisticsSize(f.channels)
	if len(f.statistics) < (cut+1)*width {
		return nil
	}
	return f.statistics[cut*width : (cut+1)*width : (cut+1)*width]
}

// eachSequence calls do for the samples of each sequence: [from, to) of the given
// samples, after n. cut is the index of the cut that ends at to, -1 for none. Windows are
// one sequence, in parts if each prediction needs its own statistics.
func (f *Front) eachSequence(before int64, cuts []Cut, count int, do func(cut, from, to int, n int64)) {
	at := 0
	for i, c := range cuts {
		switch {
		case !f.runsOn:
			do(i, int(c.From), int(c.To), c.Age)
		case c.Emit && len(f.front.Means) > 0: // in the order of their ends
			do(i, at, int(c.To), before+int64(at))
			at = int(c.To)
		}
	}
	if f.runsOn {
		do(-1, at, count, before+int64(at))
	}
}

// RowsBefore returns the number of output rows before sample r of the last samples.
func (f *Front) RowsBefore(r int32) int32 {
	if f == nil {
		return r
	}
	return f.rows[r]
}

// mostOfFront is more than any state: sums of squares are at most
// reservoir.MaxFront*4*reservoir.MaxInput^2.
const mostOfFront = 1e40

// CheckFrontState reports whether a state could have come from reservoir.Front.Run: numbers that no
// sequence of samples exceeds.
func CheckFrontState(state []float64) error {
	for i, v := range state {
		if !(math.Abs(v) <= mostOfFront) {
			return fmt.Errorf("sequence: front end: number %d of its state is %v, want a magnitude of at most %g", i, v, mostOfFront)
		}
	}
	return nil
}
