package reservoir

import (
	"fmt"
	"math"
	"slices"
)

// Norm holds the input transform's constants, one per channel.
//
//	input c            = (x[c] - Mean[c]) * Scale[c]      float32, one subtraction, one product
//	input Channels + c = (x[c] - previous x[c]) * Diff[c]  0 for the first sample
type Norm struct {
	Mean, Scale, Diff []float32
}

// InputRange describes the labeled training series of one channel, without
// missing values, before the input transform.
type InputRange struct {
	Values     int64   `json:"values"` // number of values; for 0, all other fields are 0
	Min        float32 `json:"min"`
	Max        float32 `json:"max"`
	Mean       float64 `json:"mean"`
	Deviation  float64 `json:"deviation"`   // population
	LongestRun int     `json:"longest_run"` // most consecutive samples, within a series, with equal value
}

// validate reports impossible ranges.
func (r InputRange) validate() error {
	finite := func(x float64) bool { return x-x == 0 }
	switch {
	case r.Values < 0, r.LongestRun < 0, int64(r.LongestRun) > r.Values, r.Values > 0 && r.LongestRun == 0:
		return fmt.Errorf("%d values, the longest run %d", r.Values, r.LongestRun)
	case !(r.Min <= r.Max) || !finite(float64(r.Min)) || !finite(float64(r.Max)):
		return fmt.Errorf("values from %v to %v", r.Min, r.Max)
	case !finite(r.Mean) || !(r.Deviation >= 0) || !finite(r.Deviation):
		return fmt.Errorf("mean %v, deviation %v", r.Mean, r.Deviation)
	}
	return nil
}

// InputStatistics accumulate the model's description of training samples: the
// input transform's constants and each channel's range. The same samples in the
// same order give the same bits on every platform.
type InputStatistics struct {
	value []channelStatistics
	diff  []spread
}

// NewInputStatistics starts with no sample.
func NewInputStatistics(channels int) *InputStatistics {
	return &InputStatistics{make([]channelStatistics, channels), make([]spread, channels)}
}

// SeriesStatistics adds the samples of one series to InputStatistics.
type SeriesStatistics struct {
	to     *InputStatistics
	before []float32 // the sample before; empty: none
	run    []int     // consecutive samples with each channel's last value
}

// Series begins a series: differences and runs do not cross its start.
func (s *InputStatistics) Series() *SeriesStatistics {
	return &SeriesStatistics{to: s, run: make([]int, len(s.value))}
}

// Add takes the next samples, row-major, Channels values each. NaN is a missing
// value and is passed over.
func (f *SeriesStatistics) Add(samples []float32) {
	for c := len(f.run); len(samples) >= c && c > 0; samples = samples[c:] {
		f.addSample(samples[:c])
	}
}

func (f *SeriesStatistics) addSample(sample []float32) {
	first := len(f.before) == 0
	for k, x := range sample {
		if x != x {
			f.run[k] = 0
			continue
		}
		if first || f.before[k] != x {
			f.run[k] = 0
		}
		f.run[k]++
		f.to.value[k].addValue(x, f.run[k])
		if !first && f.before[k] == f.before[k] {
			f.to.diff[k].addValue(float64(x) - float64(f.before[k]))
		}
	}
	f.before = append(f.before[:0], sample...)
}

// Skip reports omitted samples: the next sample does not follow the last.
func (f *SeriesStatistics) Skip() {
	f.before = f.before[:0]
	clear(f.run)
}

// Norm returns the input transform of a recipe: each channel's mean and
// deviation over all samples, and the deviation of its differences between
// neighboring samples. Unused parts are the identity. The scale of a channel
// depends only on that channel. A channel with a constant value gets scale 0;
// Model.ChannelRemarks lists such channels.
func (s *InputStatistics) Norm(spec Spec) Norm {
	n, limit := identityNorm(len(s.value)), spec.largestScale()
	for k := range s.value {
		value := &s.value[k]
		if spec.Standardize {
			n.Mean[k] = float32(value.mean())
			n.Scale[k] = 0
			if !value.constant() {
				n.Scale[k] = value.inverse(limit)
			}
		}
		if spec.Difference {
			n.Diff[k] = 0
			if size := math.Abs(value.mean()) + value.deviation(); s.diff[k].deviation() > step*size {
				n.Diff[k] = s.diff[k].inverse(limit)
			}
		}
	}
	return n
}

// ChannelRemark describes a channel that reaches the network with rounded values
// or not at all.
type ChannelRemark struct {
	Channel string `json:"channel"`
	Unused  bool   `json:"unused"` // the network does not see the channel
	Reason  string `json:"reason"`
}

// coarse is the deviation of a channel, relative to its mean, below which float32
// has few steps for its values.
const coarse = 0x1p-20

// ChannelRemarks returns the channels omitted by the input transform, and channels
// whose variation is hardly larger than the steps of float32.
func (m *Model) ChannelRemarks() (remarks []ChannelRemark) {
	if !m.Network.Spec.Standardize || len(m.Training.Inputs) != len(m.Channels) {
		return nil
	}
	for c, scale := range m.Network.Norm.Scale {
		r := ChannelRemark{Channel: m.Channels[c], Unused: scale == 0}
		least := 1 / m.Network.Spec.largestScale()
		switch in := m.Training.Inputs[c]; {
		case in.Values == 0: // a range without values, which every list of ranges shows
			continue
		case !r.Unused && in.Deviation > coarse*math.Abs(in.Mean):
			continue
		case r.Unused && m.isSetting(c):
			r.Reason = "it is a setting, and only selects the operating regime"
		case in.Min == in.Max:
			r.Reason = fmt.Sprintf("all its training values are %v as float32; if the source has more digits, subtract a constant from the values first", in.Min)
		case !r.Unused || math.Nextafter32(in.Min, in.Max) >= in.Max:
			r.Reason = fmt.Sprintf("its training values, %v to %v, vary by only a few steps of float32; if the source has more digits, subtract a constant from the values first", in.Min, in.Max)
		case !m.Front.transforms() && in.Deviation < least:
			r.Reason = fmt.Sprintf("its training values have a deviation of %.3g, and %.3g is the least that a network can be scaled to; use a smaller unit", in.Deviation, least)
		default:
			r.Reason = "its values do not vary after the front end"
		}
		remarks = append(remarks, r)
	}
	return remarks
}

// isSetting reports whether a channel determines the operating regime.
func (m *Model) isSetting(channel int) bool {
	return m.Front != nil && m.Front.Regimes != nil && slices.Contains(m.Front.Regimes.Settings, channel)
}

// identityNorm changes no sample.
func identityNorm(channels int) Norm {
	ones := slices.Repeat([]float32{1}, channels)
	return Norm{Mean: make([]float32, channels), Scale: ones, Diff: slices.Clone(ones)}
}

// Ranges returns the ranges of all channels.
func (s *InputStatistics) Ranges() []InputRange {
	out := make([]InputRange, len(s.value))
	for c, v := range s.value {
		out[c] = InputRange{
			Values: int64(v.n), Min: v.min, Max: v.max, Mean: v.mean(), Deviation: v.deviation(), LongestRun: v.longest,
		}
	}
	return out
}

// channelStatistics describe the training data of a channel.
type channelStatistics struct {
	spread
	min, max float32
	longest  int // longest run of equal values
}

// addValue adds a value that is not missing, the run-th consecutive equal value.
func (r *channelStatistics) addValue(x float32, run int) {
	if r.n == 0 || x < r.min {
		r.min = x
	}
	if r.n == 0 || x > r.max {
		r.max = x
	}
	r.longest = max(r.longest, run)
	r.spread.addValue(float64(x))
}

// constant reports whether all values are equal, or two neighbors in float32,
// which differ only by rounding.
func (r *channelStatistics) constant() bool {
	return r.n == 0 || math.Nextafter32(r.min, r.max) >= r.max
}

// step is half a unit in the last place or more of a float32, relative to its
// value. Differences with a smaller deviation are rounding.
const step = 0x1p-24

// spread accumulates the mean and the deviation of numbers, relative to the
// first number so that a large mean costs no digits.
type spread struct {
	n                  int
	first, sum, square float64
}

func (s *spread) addValue(x float64) {
	if s.n == 0 {
		s.first = x
	}
	s.n++
	d := x - s.first
	s.sum += d
	s.square += float64(d * d) // converted, so that no platform fuses the product: states depend on these bits
}

func (s *spread) mean() float64 {
	if s.n == 0 {
		return 0
	}
	return s.first + s.sum/float64(s.n)
}

func (s *spread) deviation() float64 {
	if s.n == 0 {
		return 0
	}
	m := s.sum / float64(s.n)
	return math.Sqrt(max(0, s.square/float64(s.n)-float64(m*m)))
}

// inverse returns 1/deviation, or 0 if the inverse exceeds the limit.
func (s *spread) inverse(limit float64) float32 {
	if dev := s.deviation(); dev*limit >= 1 {
		return float32(1 / dev)
	}
	return 0
}

// largestScale bounds the scales of the transform, so that scale times weight is
// accepted by Network.Validate, for all weights from Draw.
func (s Spec) largestScale() float64 {
	const margin = 16 // normal weights of mixed banks exceed their nominal size
	return min(largestScale, maxScale*maxWeight/(margin*max(s.Input.Hi, 1e-30)))
}
