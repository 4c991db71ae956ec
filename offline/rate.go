package offline

import (
	"slices"
	"strconv"
)

// pulse collects how fast the samples of training sequences came, where they
// have times.
type pulse struct {
	periods []float64 // of each sequence whose period is known
	longest int64     // interval of two samples in one of these, ns
}

func (s *pulse) add(p pace) {
	if p.period > 0 {
		s.periods = append(s.periods, p.period)
		s.longest = max(s.longest, p.longest)
	}
}

// rate is the sampling rate in Hz, to six digits: that of the median of the
// sequences' periods, so that a few sequences with pauses do not change it. 0
// where no sequence has a period.
func (s *pulse) rate() float64 {
	n := len(s.periods)
	if n == 0 {
		return 0
	}
	slices.Sort(s.periods)
	low, high := s.periods[(n-1)/2], s.periods[n/2]
	hertz, _ := strconv.ParseFloat(strconv.FormatFloat(1e9/(low+(high-low)/2), 'g', 6, 64), 64) // its own text
	return hertz
}
