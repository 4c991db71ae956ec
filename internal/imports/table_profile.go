package imports

import (
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Profile describes the values of a channel, and grades them. Grades:
//
//	D  no use for training: constant, or at least half of the values are missing
//	C  look first: at least a tenth missing, a counter, stuck (one value for a fifth of the
//	   data, and at least 100 samples in a run), or at most 5 different values
//	B  a few values are missing
//	A  none of these
type Profile struct {
	Values  int64   `json:"values,omitempty"`
	Missing int64   `json:"missing,omitempty"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Grade   string  `json:"grade,omitempty"`
	Why     string  `json:"why,omitempty"`

	distinct  map[float32]bool // up to mostDistinct
	last      float32
	run       int64 // samples with the value last
	longest   int64
	step      float64
	steps     int64 // differences equal to step
	different int64 // other differences
}

const (
	mostDistinct = 5   // a column with more values is no switch
	leastStuck   = 100 // samples
)

// addValue counts a value; follows: the previous value is of the same stream.
func (p *Profile) addValue(v float32, follows bool) {
	if v != v {
		p.Missing++
		p.run = 0
		return
	}
	x := float64(v)
	if p.Values == 0 || x < p.Min {
		p.Min = x
	}
	if p.Values == 0 || x > p.Max {
		p.Max = x
	}
	if follows && p.run > 0 {
		switch step := x - float64(p.last); {
		case p.steps == 0 && p.different == 0, step == p.step:
			p.step = step
			p.steps++
		default:
			p.different++
		}
	}
	if follows && p.run > 0 && v == p.last {
		p.run++
	} else {
		p.run = 1
	}
	p.Values++
	p.last, p.longest = v, max(p.longest, p.run)
	if p.distinct == nil {
		p.distinct = map[float32]bool{}
	}
	if len(p.distinct) <= mostDistinct {
		p.distinct[v] = true
	}
}

// grade sets the grade and its reason.
func (p *Profile) grade() {
	all := p.Values + p.Missing
	share := float64(p.Missing) / float64(max(1, all))
	missing := fmt.Sprintf("%.3g %% missing", 100*share)
	switch {
	case p.Values == 0:
		p.Grade, p.Why = "D", "no value"
	case p.Min == p.Max:
		p.Grade, p.Why = "D", "constant"
	case share >= .5:
		p.Grade, p.Why = "D", missing
	case share >= .1:
		p.Grade, p.Why = "C", missing
	case p.steps > 9*p.different && p.step != 0 && p.steps > 10:
		p.Grade, p.Why = "C", fmt.Sprintf("a counter: steps of %.4g", p.step)
	case len(p.distinct) <= mostDistinct:
		p.Grade, p.Why = "C", fmt.Sprintf("%d different values", len(p.distinct))
	case p.longest >= leastStuck && float64(p.longest) >= .2*float64(all):
		p.Grade, p.Why = "C", fmt.Sprintf("stuck: the same value in %d samples", p.longest)
	case p.Missing > 0:
		p.Grade, p.Why = "B", missing
	default:
		p.Grade = "A"
	}
}

// pace measures the sampling rate of the first stream with times.
type pace struct {
	stream      string
	last        int64
	differences []int64
	backward    int64 // times of the stream that go back
	first, end  int64 // times of all streams
	timed       bool
}

const mostDifferences = 4096

// addTime counts the time of a sample.
func (p *pace) addTime(stream string, t int64) {
	if t == archive.NoTime {
		return
	}
	if !p.timed {
		p.stream, p.last, p.first, p.end, p.timed = stream, t, t, t, true
		return
	}
	p.first, p.end = min(p.first, t), max(p.end, t)
	if stream != p.stream {
		return
	}
	if t < p.last {
		p.backward++
	}
	if len(p.differences) < mostDifferences {
		p.differences = append(p.differences, t-p.last)
	}
	p.last = t
}

// rate returns the sampling rate in Hz by the median difference, 0 if unknown, and the
// share of differences beyond a half of the median from it.
func (p *pace) rate() (hertz, irregular float64) {
	if len(p.differences) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(p.differences))
	median := float64(sorted[len(sorted)/2])
	if median <= 0 {
		return 0, 1
	}
	odd := 0
	for _, d := range sorted {
		if math.Abs(float64(d)-median) > median/2 {
			odd++
		}
	}
	return 1e9 / median, float64(odd) / float64(len(sorted))
}
