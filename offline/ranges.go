package offline

import "github.com/eusn-stream/eusn-stream/reservoir"

// channelRange is what the training data hold of a channel, for the model to
// know what is unlike it; see package reservoir/monitor.
type channelRange struct {
	spread
	min, max float32
	longest  int // run of one value
}

// add takes a value that is there, the run-th of its kind in a row.
func (r *channelRange) add(x float32, run int) {
	if r.n == 0 || x < r.min {
		r.min = x
	}
	if r.n == 0 || x > r.max {
		r.max = x
	}
	r.longest = max(r.longest, run)
	r.spread.add(float64(x))
}

// inputs are the ranges of all channels.
func (m *moments) inputs() []reservoir.InputRange {
	out := make([]reservoir.InputRange, len(m.value))
	for c, ch := range m.value {
		out[c] = reservoir.InputRange{
			Values: int64(ch.n), Min: ch.min, Max: ch.max, Mean: ch.mean(), Deviation: ch.deviation(), LongestRun: ch.longest,
		}
	}
	return out
}
