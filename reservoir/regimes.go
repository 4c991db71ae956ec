package reservoir

import (
	"errors"
	"fmt"
	"math"
)

// Regimes are the operating regimes of a machine, such as speeds or loads: a sample belongs to
// the regime whose center is nearest to its settings, and each channel is standardized within
// the regime. A channel with scale 0, such as a setting, is 0 for the network.
type Regimes struct {
	Settings []int       `json:"settings"` // channels that determine the regime, ascending
	Mean     []float64   `json:"mean"`     // of each setting
	Scale    []float64   `json:"scale"`    // of each setting
	Centers  [][]float64 `json:"centers"`  // of each regime: (setting - Mean) * Scale
	Reach    []float64   `json:"reach"`    // of each regime: greater distances from its center are unlike the training
	Means    [][]float32 `json:"means"`    // of each regime: one of each channel
	Scales   [][]float32 `json:"scales"`   // of each regime: one of each channel
}

// maxRegimes bounds the number of regimes.
const maxRegimes = 64

// Of returns the regime of a sample: the first with the least distance. far reports that the
// sample is outside the reach of this regime.
//
// Canonical, and the same on every platform: float64, one rounding for each operation; the
// squared distance is the sum of ((setting - Mean) * Scale - Center)^2 in the order of the
// settings, from 0.
func (g *Regimes) Of(sample []float32) (regime int, far bool) {
	least := math.Inf(1)
	for r, center := range g.Centers {
		if d := g.distance(sample, center); d < least {
			regime, least = r, d
		}
	}
	return regime, least > float64(g.Reach[regime]*g.Reach[regime])
}

// Distance returns the squared distance of a sample from the center of a regime.
func (g *Regimes) Distance(sample []float32, regime int) float64 {
	return g.distance(sample, g.Centers[regime])
}

// distance converts products, so that no platform fuses them with a sum.
func (g *Regimes) distance(sample []float32, center []float64) (sum float64) {
	for j, c := range g.Settings {
		d := float64((float64(sample[c])-g.Mean[j])*g.Scale[j]) - center[j]
		sum += float64(d * d)
	}
	return sum
}

// run standardizes samples, row-major, in place: y = (x - mean) * scale of the sample's regime
// in float64, one rounding for each operation, rounded to float32 and limited to MaxInput.
func (g *Regimes) run(samples []float32, channels int) {
	for ; len(samples) >= channels; samples = samples[channels:] {
		r, _ := g.Of(samples)
		mean, scale := g.Means[r], g.Scales[r]
		for c, x := range samples[:channels] {
			samples[c] = limited((float64(x) - float64(mean[c])) * float64(scale[c]))
		}
	}
}

// validate refuses regimes that do not fit the channels, and numbers that overflow.
func (g *Regimes) validate(channels int) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("reservoir: regimes: "+format, args...))
	}
	n, s := len(g.Centers), len(g.Settings)
	if n < 1 || n > maxRegimes || len(g.Reach) != n || len(g.Means) != n || len(g.Scales) != n {
		bad("%d centers, %d reaches, %d means and %d scales, want as many of each, 1 to %d", n, len(g.Reach), len(g.Means), len(g.Scales), maxRegimes)
		return errors.Join(errs...)
	}
	if s < 1 || len(g.Mean) != s || len(g.Scale) != s {
		bad("%d settings with %d means and %d scales, want as many of each, at least one", s, len(g.Mean), len(g.Scale))
	}
	for j, c := range g.Settings {
		if c < 0 || c >= channels || j > 0 && c <= g.Settings[j-1] {
			bad("settings %v, want ascending channels below %d", g.Settings, channels)
			break
		}
	}
	numbers := func(what string, v []float64, want int) {
		checkNumbers(bad, what, v, want, largestScale)
	}
	numbers("mean of settings", g.Mean, s)
	numbers("scale of settings", g.Scale, s)
	numbers("reach", g.Reach, n)
	for r := range n {
		numbers(fmt.Sprintf("center %d", r), g.Centers[r], s)
		checkValues(bad, fmt.Sprintf("means of regime %d", r), g.Means[r], channels, MaxInput)
		checkValues(bad, fmt.Sprintf("scales of regime %d", r), g.Scales[r], channels, largestScale)
	}
	return errors.Join(errs...)
}

// checkNumbers is checkValues of float64 values.
func checkNumbers(bad func(format string, args ...any), what string, v []float64, want int, limit float64) {
	if len(v) != want {
		bad("%s has %d values, want %d", what, len(v), want)
		return
	}
	for i, x := range v {
		if !(x >= -limit && x <= limit) {
			bad("%s[%d] is %v, want a number of magnitude at most %g", what, i, x, limit)
			return
		}
	}
}
