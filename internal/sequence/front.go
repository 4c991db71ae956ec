package sequence

import "github.com/eusn-stream/eusn-stream/reservoir"

// Front runs the samples of streams through a model's front end, which begins
// anew where a sequence begins. Windows overlap, so there it continues from the
// stream's first sample. It belongs to one goroutine, which may use it for any
// number of streams: their states are the caller's. A nil Front changes nothing.
type Front struct {
	front    *reservoir.Front
	runsOn   bool
	channels int
	at       []int32 // of the samples given last: how many come out before each, and behind the last
}

// NewFront is that of a model, nil where the model has none.
func NewFront(f *reservoir.Front, p reservoir.Policy, channels int) *Front {
	if f == nil {
		return nil
	}
	return &Front{front: f, runsOn: p.Kind == reservoir.Window, channels: channels, at: []int32{0}}
}

// StateSize is how many numbers a stream's state has.
func (f *Front) StateSize() int {
	if f == nil {
		return 0
	}
	return f.front.StateSize(f.channels)
}

// Place says which samples come out of the next count ones of a stream, for At.
// before is Sequencer.N before they were cut, cuts is what they were cut into.
// It returns how many come out.
func (f *Front) Place(before int64, cuts []Cut, count int) int {
	if f == nil {
		return count
	}
	f.at = append(f.at[:0], 0)
	f.each(before, cuts, count, func(from, to int, n int64) {
		first := int64(f.at[from]) - f.front.Out(n)
		for r := from; r < to; r++ {
			n++
			f.at = append(f.at, int32(first+f.front.Out(n)))
		}
	})
	return int(f.at[count])
}

// Run is Place, and transforms the samples, row-major. What comes out stands at
// their beginning.
func (f *Front) Run(state []float64, before int64, cuts []Cut, samples []float32) int {
	if f == nil {
		return 0
	}
	c := f.channels
	out := f.Place(before, cuts, len(samples)/c)
	f.each(before, cuts, len(samples)/c, func(from, to int, n int64) {
		got := f.front.Run(state, n, samples[from*c:to*c], c)
		copy(samples[int(f.at[from])*c:], samples[from*c:(from+got)*c])
	})
	return out
}

// each calls do for the samples of each sequence: [from, to) of those given,
// after n.
func (f *Front) each(before int64, cuts []Cut, count int, do func(from, to int, n int64)) {
	if f.runsOn {
		do(0, count, before)
		return
	}
	for _, c := range cuts {
		do(int(c.From), int(c.To), c.Age)
	}
}

// At is how many samples come out before sample r of those given last.
func (f *Front) At(r int32) int32 {
	if f == nil {
		return r
	}
	return f.at[r]
}
