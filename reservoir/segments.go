package reservoir

import "math"

// Segments divides a sequence of the policy count into segments of equal length. The
// statistics of a segment are the mean and the standard deviation of each channel: unlike the
// features of the network, segments show when something happened within the sequence.
type Segments struct {
	Count  int `json:"count"`  // segments of a sequence
	Length int `json:"length"` // samples of a segment, after the front end
}

// MaxSegments bounds the number of segments of a sequence.
const MaxSegments = 64

// segmentNumbers of each channel are in the state of a segment: the mean of the samples, and
// the sum of their squared distances from the mean.
const segmentNumbers = 2

// numbers returns the numbers of all segments for a channel; 0 for nil.
func (s *Segments) numbers() int {
	if s == nil {
		return 0
	}
	return s.Count * segmentNumbers
}

// checkSegments reports to bad segments that are not the whole sequence.
func (f *Front) checkSegments(p Policy, bad func(format string, args ...any)) {
	s := f.Segments
	switch {
	case s == nil:
	case s.Count < 1 || s.Count > MaxSegments || s.Length < 2 || s.Length > MaxFront:
		bad("%d segments of %d samples, want 1 to %d segments of 2 to %d samples", s.Count, s.Length, MaxSegments, MaxFront)
	case len(f.Means) > 0:
		bad("means and segments, want one of them")
	case p.Kind != Count || p.Early != 0:
		bad("segments and the policy %s with early predictions every %d samples, want the policy count without early predictions: all predictions have the same segments", p.Kind, p.Early)
	case f.Out(int64(p.Length)) != int64(s.Count)*int64(s.Length):
		bad("%d segments of %d samples, and a sequence of %d samples, want segments of the whole sequence", s.Count, s.Length, f.Out(int64(p.Length)))
	}
}

// updateSegments takes the next output samples, after n earlier output samples of the
// sequence, and ignores samples after the last segment. state has the numbers of each channel
// in the first segment, then in the second.
//
// Canonical, and the same on every platform: float64, one rounding for each operation, in the
// order written. For sample k of a segment, 1 for the first, and d = y - mean:
//
//	mean = mean + d/k;  squares = squares + d*(y - mean)
//
// with d/k as d times the rounded 1/k (Welford, "Note on a method for calculating corrected
// sums of squares and products", 1962).
func (f *Front) updateSegments(state []float64, n int64, samples []float32, channels int) {
	s := f.Segments
	if s == nil {
		return
	}
	length := int64(s.Length)
	for ; len(samples) > 0 && n < length*int64(s.Count); samples = samples[channels:] {
		segment := state[n/length*int64(channels)*segmentNumbers:]
		share := 1 / float64(n%length+1)
		n++
		for c, y := range samples[:channels] {
			numbers := (*[segmentNumbers]float64)(segment[c*segmentNumbers:])
			d := float64(y) - numbers[0]
			numbers[0] += float64(d * share)
			numbers[1] += float64(d * (float64(y) - numbers[0]))
		}
	}
}

// statistics writes the mean and sqrt(squares/Length) of each channel in the first segment to
// dst, then of those in the second, computed in float64 and rounded to float32. Those of
// segments without samples are 0.
func (s *Segments) statistics(dst []float32, state []float64) {
	for i := 0; i < len(dst); i += segmentNumbers {
		dst[i] = float32(state[i])
		dst[i+1] = float32(math.Sqrt(state[i+1] / float64(s.Length)))
	}
}
