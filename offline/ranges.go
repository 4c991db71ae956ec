package offline

import "github.com/eusn-stream/eusn-stream/reservoir"

// inputRanges says what the listed series hold of each channel, for the model
// to know what is unlike it; see package reservoir/monitor.
func inputRanges(d *Dataset, series []int) []reservoir.InputRange {
	r := make(ranges, len(d.Channels))
	for _, i := range series {
		r.add(d.Series[i].Values)
	}
	return r.inputs()
}

// ranges gathers them, a series at a time.
type ranges []channelRange

type channelRange struct {
	spread
	min, max     float32
	run, longest int // of one value: now, and ever
}

// add takes a whole series, row-major. Missing values (NaN) count nowhere and
// end a run, as in package monitor.
func (r ranges) add(values []float32) {
	for c := range r {
		ch := &r[c]
		ch.run = 0
		var last float32
		for k := c; k < len(values); k += len(r) {
			x := values[k]
			if x != x {
				ch.run = 0
				continue
			}
			if ch.n == 0 || x < ch.min {
				ch.min = x
			}
			if ch.n == 0 || x > ch.max {
				ch.max = x
			}
			if ch.run > 0 && x == last {
				ch.run++
			} else {
				ch.run, last = 1, x
			}
			ch.longest = max(ch.longest, ch.run)
			ch.spread.add(float64(x))
		}
	}
}

func (r ranges) inputs() []reservoir.InputRange {
	out := make([]reservoir.InputRange, len(r))
	for c, ch := range r {
		out[c] = reservoir.InputRange{
			Values: int64(ch.n), Min: ch.min, Max: ch.max, Mean: ch.mean(), Deviation: ch.deviation(), LongestRun: ch.longest,
		}
	}
	return out
}
