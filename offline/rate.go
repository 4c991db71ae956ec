package offline

import (
	"slices"
	"strconv"
)

// pulse collects how fast the samples of training sequences came, where they
// have times.
type pulse struct {
	periods []float64 // of each sequence whose period is known
	longest []int64   // interval of two samples in each of these, ns
}

func (s *pulse) add(p pace) {
	if p.period > 0 {
		s.periods, s.longest = append(s.periods, p.period), append(s.longest, p.longest)
	}
}

// longestInterval is what at most one in usual of the sequences exceeds, ns: in a
// recording of several days few windows hold the time between two of them, which
// is not how samples come.
func (s *pulse) longestInterval() int64 {
	n := len(s.longest)
	if n == 0 {
		return 0
	}
	slices.Sort(s.longest)
	return s.longest[n-1-n/usual]
}

const usual = 50

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
