package state

import (
	"math"
	"sort"
)

// findMissing lists the missing values among the samples of one stream in s.missing
// (flat indices into x, ascending), and replaces each missing value with a NaN.
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
