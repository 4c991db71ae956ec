package state

import (
	"math"
	"slices"
	"sort"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/sequence"
)

// findMissing lists the missing values among one stream's samples in s.missing
// (flat indices into x, ascending), and makes each of them a NaN.
func (s *Machine) findMissing(m *step, x []float32, g group) {
	if g.rows == nil {
		s.missing = append(s.missing, s.in.Missing...)
	} else {
		for i, r := range g.rows {
			lo := sort.Search(len(s.in.Missing), func(k int) bool { return s.in.Missing[k] >= r*int32(s.Channels) })
			for _, at := range s.in.Missing[lo:] {
				if at >= (r+1)*int32(s.Channels) {
					break
				}
				s.missing = append(s.missing, at+(int32(i)-r)*int32(s.Channels))
			}
		}
	}
	m.fx.Missing += uint64(len(s.missing))
	for _, at := range s.missing {
		x[at] = float32(math.NaN())
	}
}

// fill puts a value in the place of each that is missing: zero, or, under the
// policy hold, the stream's previous value of that channel. A sequence
// does not see the one before it: at its very start the value is the training
// data's mean, which standardises to 0, as in training. Windows overlap, so
// there only the stream's first sample has none before it.
func (s *Machine) fill(x []float32, st *Stream) {
	for _, m := range s.missing {
		row, ch := int(m)/s.Channels, int(m)%s.Channels
		switch {
		case !s.Hold:
			x[m] = 0
		case s.begins(row) || row == 0 && len(st.sample) == 0:
			x[m] = s.Mean[ch]
		case row == 0:
			x[m] = st.sample[ch]
		default:
			x[m] = x[int(m)-s.Channels]
		}
	}
}

// begins reports whether a sequence begins at the row of the stream in hand.
func (s *Machine) begins(row int) bool {
	return s.Policy.Kind != reservoir.Window &&
		slices.ContainsFunc(s.cuts, func(c sequence.Cut) bool { return c.Reset && int(c.From) == row && c.To > c.From })
}

// misses reports whether a value in the cut's rows was filled in.
func (s *Machine) misses(c sequence.Cut) bool {
	lo := sort.Search(len(s.missing), func(k int) bool { return s.missing[k] >= c.From*int32(s.Channels) })
	return lo < len(s.missing) && s.missing[lo] < c.To*int32(s.Channels)
}
