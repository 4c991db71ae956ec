package reservoir

import (
	"errors"
	"fmt"
	"math"
)

// Front transforms the samples of a stream before the network: a model's front
// end. The parts run in the order of the fields, each on the output of the
// previous part; parts with 0 are skipped. Lengths are in input samples. Each
// channel stays a channel, so the network has as many channels as the messages.
// See Run for the arithmetic.
type Front struct {
	Regimes *Regimes `json:"regimes,omitempty"` // standardizes channels within operating regimes; nil: none

	Center    int `json:"center,omitzero"`    // subtracts a running mean of about this many samples
	Normalize int `json:"normalize,omitzero"` // also divides by a running deviation; not together with Center
	Smooth    int `json:"smooth,omitzero"`    // running mean; not together with Envelope
	Envelope  int `json:"envelope,omitzero"`  // running mean of the magnitude
	Decimate  int `json:"decimate,omitzero"`  // replaces this many samples by their mean

	// Means are the lengths of running means of the output samples, ascending, for the
	// statistics that random features and detectors read; see Statistics. nil: none.
	Means []int `json:"means,omitempty"`

	// Segments divides a sequence for the statistics that weights of segments read; nil: not divided.
	Segments *Segments `json:"segments,omitempty"`

	// Fill replaces missing values before the first value of a sequence, one
	// number for each channel: the mean of the training samples.
	Fill []float32 `json:"fill"`
}

// MaxFront bounds the lengths of a front end, in samples.
const MaxFront = 1 << 30

// maxMeans bounds the number of running means of a channel.
const maxMeans = 8

// CheckParts refuses lengths that make no front end, or none with that policy.
func (f *Front) CheckParts(p Policy) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("reservoir: front end: "+format, args...))
	}
	for _, part := range []struct {
		name       string
		value, min int
	}{{"center", f.Center, 2}, {"normalize", f.Normalize, 2}, {"smooth", f.Smooth, 2}, {"envelope", f.Envelope, 1}, {"decimate", f.Decimate, 2}} {
		if part.value != 0 && (part.value < part.min || part.value > MaxFront) {
			bad("%s of %d samples, want %d to %d", part.name, part.value, part.min, MaxFront)
		}
	}
	if f.Center != 0 && f.Normalize != 0 {
		bad("center and normalize, want one of them: normalize subtracts the mean, too")
	}
	if f.Smooth != 0 && f.Envelope != 0 {
		bad("smooth and envelope, want one of them: an envelope is a running mean, too")
	}
	if !f.transforms() && len(f.Means) == 0 && f.Segments == nil {
		bad("no part, want at least one of regimes, center, normalize, smooth, envelope, decimate, means, segments")
	}
	f.checkMeans(bad)
	f.checkSegments(p, bad)
	if f.Decimate > 1 {
		f.checkDecimate(p, bad)
	}
	return errors.Join(errs...)
}

// checkMeans reports to bad lengths of running means that are not ascending.
func (f *Front) checkMeans(bad func(format string, args ...any)) {
	if len(f.Means) > maxMeans {
		bad("%d means, want at most %d", len(f.Means), maxMeans)
	}
	for k, length := range f.Means {
		if length < 1 || length > MaxFront || k > 0 && length <= f.Means[k-1] {
			bad("means of %v samples, want ascending lengths of 1 to %d", f.Means, MaxFront)
			break
		}
	}
}

// runs reports whether a part with a length follows the regimes, and changes the samples.
func (f *Front) runs() bool {
	return f.Center != 0 || f.Normalize != 0 || f.Smooth != 0 || f.Envelope != 0 || f.Decimate != 0
}

// transforms reports whether output samples differ from input samples: means change no sample.
func (f *Front) transforms() bool { return f != nil && (f.Regimes != nil || f.runs()) }

// checkDecimate reports to bad a policy whose sequences may end within a mean.
func (f *Front) checkDecimate(p Policy, bad func(format string, args ...any)) {
	d := f.Decimate
	switch {
	case p.Kind == Window && p.Hop%d != 0:
		bad("policy window with a hop of %d samples, want a multiple of decimate (%d): windows begin and end between two means", p.Hop, d)
	case p.Kind == Count && p.Length%d != 0:
		bad("policy count with a length of %d samples, want a multiple of decimate (%d): the last samples would be left out", p.Length, d)
	}
}

// validate runs CheckParts and checks the other fields.
func (f *Front) validate(p Policy, channels int) error {
	errs := []error{f.CheckParts(p)}
	if f.Regimes != nil {
		errs = append(errs, f.Regimes.validate(channels))
	}
	if len(f.Fill) != channels {
		errs = append(errs, fmt.Errorf("reservoir: front end: %d values of fill, want one for each of %d channels", len(f.Fill), channels))
	}
	for c, x := range f.Fill {
		if !(x >= -MaxInput && x <= MaxInput) {
			errs = append(errs, fmt.Errorf("reservoir: front end: fill of channel %d is %v, want a magnitude of at most %g", c, x, float64(MaxInput)))
		}
	}
	return errors.Join(errs...)
}

// frontNumbers of each channel continue from one sample to the next: mean, variance,
// envelope (or smooth), sum. Numbers of unused parts stay 0.
const frontNumbers = 4

// StateSize returns the number of float64 values in the state of a stream: 0 for a nil front
// end, and for one with only regimes.
func (f *Front) StateSize(channels int) int {
	return f.partsSize(channels) + f.StatisticsSize(channels)
}

// partsSize is StateSize without the statistics, which follow in the state.
func (f *Front) partsSize(channels int) int {
	if f == nil || !f.runs() {
		return 0
	}
	return channels * frontNumbers
}

// rounding is the share of a running mean below which a deviation is taken for
// float32 rounding: four units in the last place.
const rounding = 0x1p-22

// Out returns the number of output samples for the first n samples of a sequence.
func (f *Front) Out(n int64) int64 {
	if f == nil || f.Decimate == 0 {
		return n
	}
	return n / int64(f.Decimate)
}

// Run transforms the next samples of a sequence, row-major, after n earlier
// samples. The output replaces the beginning of samples; Run returns its number
// of samples. The state comes from the previous call; for n = 0 Run clears it
// first.
//
// Regimes come first; see Regimes.Of for the regime, and y = (x - mean) * scale in float64,
// rounded to float32. Canonical, and the same on every platform: float64, one rounding for each
// operation, in the order written. With k = n+1 for the first sample, then one
// more for each, and for each channel:
//
//	center, normalize:  d = x - mean;  mean = mean + d/min(k, length)
//	normalize:          variance = (1 - 1/min(k, length)) * (variance + d*d/min(k, length))
//	                    y = x - mean; normalize: y = y/sqrt(variance), or 0 if
//	                    sqrt(variance) is not above 2^-22 * |mean|
//	smooth:             e = e + (y - e)/min(k, length);  y = e
//	envelope:           e = e + (|y| - e)/min(k, length);  y = e
//	decimate:           sum = sum + y; if k is a multiple of the length: y = sum/length, sum = 0;
//	                    else no output
//
// with v/min(k, length) as v times the rounded 1/min(k, length), and d*d/min as
// (d/min)*d. The result is rounded to float32, and limited to MaxInput.
//
// So the first samples of a sequence have equal weights, and later samples have
// weights that decay with the length as their time constant. The running means of
// Means follow output samples in the same way; see Segments for theirs.
func (f *Front) Run(state []float64, n int64, samples []float32, channels int) (out int) {
	if len(samples) == 0 {
		return 0
	}
	if f.Regimes != nil {
		f.Regimes.run(samples, channels)
	}
	if n == 0 {
		clear(state)
	}
	parts := f.partsSize(channels)
	for c := range parts / frontNumbers {
		f.channel((*[frontNumbers]float64)(state[c*frontNumbers:]), n, samples[c:], channels)
	}
	out = int(f.Out(n+int64(len(samples)/channels)) - f.Out(n))
	f.updateMeans(state[parts:], f.Out(n), samples[:out*channels], channels)
	f.updateSegments(state[parts:], f.Out(n), samples[:out*channels], channels)
	return out
}

// channel is Run of one channel, whose values are stride apart. Products are
// converted, so that no platform fuses them with a sum.
func (f *Front) channel(state *[frontNumbers]float64, n int64, x []float32, stride int) {
	mean, variance, envelope, sum := state[0], state[1], state[2], state[3]
	level, normalize := max(f.Center, f.Normalize), f.Normalize > 0
	put := 0
	for at := 0; at < len(x); at += stride {
		n++
		y := float64(x[at])
		if level > 0 {
			a, d := share(n, level), y-mean
			mean += float64(a * d)
			y -= mean
			if normalize {
				variance = float64((1 - a) * (variance + float64(float64(a*d)*d)))
				if deviation := math.Sqrt(variance); deviation > float64(rounding*math.Abs(mean)) {
					y /= deviation
				} else {
					y = 0
				}
			}
		}
		if f.Smooth > 0 {
			envelope += float64(share(n, f.Smooth) * (y - envelope))
			y = envelope
		}
		if f.Envelope > 0 {
			envelope += float64(share(n, f.Envelope) * (math.Abs(y) - envelope))
			y = envelope
		}
		if f.Decimate > 0 {
			sum += y
			if n%int64(f.Decimate) != 0 {
				continue
			}
			y, sum = sum/float64(f.Decimate), 0
		}
		x[put] = limited(y) // after it are unread samples
		put += stride
	}
	*state = [frontNumbers]float64{mean, variance, envelope, sum}
}

// share is the weight of the n-th sample in a running mean.
func share(n int64, length int) float64 { return 1 / float64(min(n, int64(length))) }

// limited returns a value that every engine accepts.
func limited(y float64) float32 {
	return max(-MaxInput, min(MaxInput, float32(y)))
}
