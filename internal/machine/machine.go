package machine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Options configure Simulate. Zero fields take the defaults.
type Options struct {
	Train, Test int     // series of each part; default DefaultSeries
	Seed        uint64  // same seed, same bits, on every platform
	Samples     int     // of each series; default DefaultSamples
	Rate        float64 // samples per second; default DefaultRate
	Noise       float64 // deviation of the sensor noise in m/s^2; default DefaultNoise, negative = none
}

// Defaults of Options.
const (
	DefaultSeries  = 300
	DefaultSamples = 320  // 78 ms: about two shaft revolutions, seven outer-race impacts
	DefaultRate    = 4096 // Hz; the resonance the impacts excite lies near 1.2 kHz
	// DefaultNoise is as loud as the weakest fault impacts. With this noise a bank of 20
	// x 50 units classifies about 97 of 100 series correctly, the nearest neighbor by
	// each axis's deviation and peak about 90, the nearest neighbor by raw samples about
	// 50.
	DefaultNoise = 0.25
)

// MinSamples is the least number of samples of a series.
const MinSamples = 16

// maxSamples bounds the samples of a call: 3 axes of float32 each.
const maxSamples = 1 << 28

var (
	machineChannels = []string{"horizontal", "vertical", "axial"}
	machineClasses  = []string{"healthy", "imbalance", "inner-race", "outer-race"}
)

// The simulated conditions, sorted as Dataset.Classes requires.
const (
	healthy = iota
	imbalance
	innerRace
	outerRace
)

func (o Options) withDefaults() Options {
	if o.Train == 0 {
		o.Train = DefaultSeries
	}
	if o.Test == 0 {
		o.Test = DefaultSeries
	}
	if o.Samples == 0 {
		o.Samples = DefaultSamples
	}
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	if o.Noise == 0 {
		o.Noise = DefaultNoise
	}
	o.Noise = max(o.Noise, 0)
	return o
}

func (o Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("offline: simulation: "+format, args...))
	}
	if o.Train < 4 || o.Test < 4 {
		bad("%d training and %d test series, want at least 4 of each (one per class)", o.Train, o.Test)
	}
	if o.Samples < MinSamples {
		bad("%d samples per series, want at least %d", o.Samples, MinSamples)
	}
	if !(o.Rate >= 3000 && o.Rate <= 1e6) {
		bad("rate %g Hz, want 3000 to 1e6: below, the resonance near 1.2 kHz is not seen", o.Rate)
	}
	if !(o.Noise <= 1e3) {
		bad("noise %g m/s^2, want at most 1000", o.Noise)
	}
	if len(errs) == 0 && float64(o.Train+o.Test)*float64(o.Samples) > maxSamples {
		bad("%d x %d samples, want at most %d in all", o.Train+o.Test, o.Samples, maxSamples)
	}
	return errors.Join(errs...)
}

// Simulate makes a labeled data set of the vibration of a rotating machine, in m/s^2, as
// measured by a three-axis accelerometer on the bearing housing: horizontal, vertical,
// axial. Four conditions: healthy, imbalance, a fault on the bearing's inner race, a
// fault on its outer race. The model and its sources are in machineSeries.
//
// Series are independent of each other and of the number of series: train-7 of a seed is
// the same series in every data set. The bits are the same on every platform: the
// generator is math/rand/v2's PCG, whose output is specified, and arithmetic uses only
// operations with the same rounding on all platforms (see draw.go). It ends early only
// when ctx does.
func Simulate(ctx context.Context, o Options, progress archive.Progress) (*archive.Dataset, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	d := &archive.Dataset{
		Name:     "machine",
		Channels: slices.Clone(machineChannels),
		Classes:  slices.Clone(machineClasses),
		Series:   make([]archive.Series, 0, o.Train+o.Test),
		Source: archive.Provenance{
			Format: "simulation",
			Note: fmt.Sprintf("simulated rotating machine, bearing 6205: seed %d, %d training and %d test series of %d samples at %g Hz, noise %g m/s^2",
				o.Seed, o.Train, o.Test, o.Samples, o.Rate, o.Noise),
		},
	}
	total := int64(o.Train + o.Test)
	for _, part := range []struct {
		split archive.Split
		n     int
	}{{archive.Train, o.Train}, {archive.Test, o.Test}} {
		for i := range part.n {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			d.Series = append(d.Series, archive.Series{
				ID:     fmt.Sprintf("%s-%d", part.split, i),
				Split:  part.split,
				Label:  i % len(d.Classes),
				Values: machineSeries(o, part.split, i),
			})
			if progress != nil {
				progress(int64(len(d.Series)), total, "series simulated")
			}
		}
	}
	return d, nil
}

// machineSeries returns a series of condition i mod 4.
//
// The shaft turns at 24 to 33 Hz, drawn per series, at a drawn angle. Its residual
// imbalance gives a rotating force m*e*omega^2: the horizontal and vertical axes measure
// it a quarter turn apart, the axial axis hardly. ISO 21940-11 grades imbalance by
// e*omega in mm/s: at most G 2.5 here for a balanced rotor, G 4 to 16 for class
// imbalance; the housing's mass is 20 times the rotor's, so acceleration =
// (e*omega)*omega/20. A weak second harmonic is the sign of misalignment.
//
// Each rolling element strikes a spall on a race. For n elements of diameter d on pitch
// diameter D at contact angle a (R. B. Randall, J. Antoni: Rolling element bearing
// diagnostics - a tutorial, Mechanical Systems and Signal Processing 25 (2011) 485-520,
// eq. 1 and 2) impacts come at
//
//	outer race  BPFO = n/2 * f * (1 - d/D cos a)
//	inner race  BPFI = n/2 * f * (1 + d/D cos a)
//
// with intervals varying by 1 to 2 % because the elements slip (there, section 2). Each
// impact excites a resonance of the housing, a decaying sine (P. D. McFadden, J. D.
// Smith: Model for the vibration produced by a single point defect in a rolling element
// bearing, Journal of Sound and Vibration 96 (1984) 69-82). An outer-race spall stays in
// the load zone; an inner-race spall turns through the load zone with the shaft, so its
// impacts follow Stribeck's load distribution (same source, eq. 3 to 5): see loadZone.
func machineSeries(o Options, split archive.Split, i int) []float32 {
	r := newDraw(o.Seed, split, i)
	condition := i % 4
	shaft := r.between(24, 33) // Hz
	angle := r.between(0, 1)   // turns
	a := axes{n: o.Samples, v: make([]float64, 3*o.Samples)}
	a.addRotation(r, condition, shaft, angle, o.Rate)
	switch condition {
	case innerRace:
		a.addImpacts(r, shaft, angle, o.Rate, bearing6205.inner(), true)
	case outerRace:
		a.addImpacts(r, shaft, angle, o.Rate, bearing6205.outer(), false)
	}
	sigma := float64(o.Noise * r.between(0.8, 1.25))
	out := make([]float32, len(a.v))
	for k, v := range a.v {
		out[k] = float32(math.FMA(sigma, r.normal(), v))
	}
	return out
}

// bearing is the geometry of a bearing, which determines its characteristic frequencies.
type bearing struct {
	balls int
	ratio float64 // ball diameter / pitch diameter * cos(contact angle)
}

// bearing6205 is the deep-groove bearing of the Case Western Reserve test
// stand: 9 balls of 0.3126 in on a pitch diameter of 1.537 in, contact angle 0.
var bearing6205 = bearing{balls: 9, ratio: 0.3126 / 1.537}

// outer and inner are impacts per shaft turn: 3.585 and 5.415 for the 6205.
func (b bearing) outer() float64 { return float64(b.balls) / 2 * (1 - b.ratio) }
func (b bearing) inner() float64 { return float64(b.balls) / 2 * (1 + b.ratio) }

// axes accumulates samples x 3 values, row-major.
type axes struct {
	n int
	v []float64
}

// addRotation adds the shaft's own vibration.
func (a *axes) addRotation(r *draw, condition int, shaft, angle, rate float64) {
	grade := r.between(0.5, 2.5) // mm/s
	if condition == imbalance {
		grade = r.between(4, 16)
	}
	const housing = 20 // masses of the rotor
	amp := grade / 1000 * (2 * math.Pi * shaft) / housing * machineGain
	second := float64(amp * r.between(0.1, 0.4))
	secondAngle := r.between(0, 1)
	// A housing is softer sideways than downwards.
	gain := [3]float64{r.between(0.9, 1.2), r.between(0.6, 0.9), r.between(0.05, 0.2)}
	lag := [3]float64{0, 0.25, r.between(0, 1)}
	for k := range a.n {
		turn := math.FMA(shaft/rate, float64(k), angle)
		for c := range 3 {
			one := float64(amp * sine(turn+lag[c]))
			two := float64(second * sine(float64(2*(turn+lag[c]))+secondAngle))
			a.v[3*k+c] = math.FMA(gain[c], one+two, a.v[3*k+c])
		}
	}
}

// machineGain converts the housing's small acceleration to the sensor's: the mount is
// near its own resonance.
const machineGain = 12

// addImpacts adds the ringing of a race fault: perTurn impacts per shaft turn.
func (a *axes) addImpacts(r *draw, shaft, angle, rate, perTurn float64, turning bool) {
	interval := rate / (perTurn * shaft) // samples
	slip := r.between(0.01, 0.02)
	size := r.between(2, 5) // m/s^2
	gain := [3]float64{r.between(0.5, 0.9), r.between(0.8, 1.2), r.between(0.2, 0.6)}
	resonance := r.between(1100, 1300) / rate // turns per sample
	decay := 1 / (r.between(0.8, 1.6) / 1000 * rate)
	// From before the start, so that earlier impacts still ring in the first samples.
	for at := float64(interval * (r.between(0, 1) - 2)); at < float64(a.n); {
		force := float64(size * r.between(0.8, 1.2))
		if turning {
			force = float64(force * loadZone(math.FMA(shaft/rate, at, angle)))
		}
		a.ring(at, force, resonance, decay, gain)
		at += float64(interval * math.FMA(slip, r.normal(), 1))
	}
}

// ring adds force * exp(-decay t) * sine(resonance t), t in samples since at.
func (a *axes) ring(at, force, resonance, decay float64, gain [3]float64) {
	const silent = 8 // exp(-8) of the force is far below the noise
	first := math.Ceil(at)
	amp := float64(force * canon.ExpNegative(float64(decay*(first-at))))
	step := canon.ExpNegative(decay)
	for k, last := int(first), int(at+silent/decay); k <= last && k < a.n; k++ {
		if k >= 0 {
			s := float64(amp * sine(float64(resonance*(float64(k)-at))))
			for c := range 3 {
				a.v[3*k+c] = math.FMA(gain[c], s, a.v[3*k+c])
			}
		}
		amp = float64(amp * step)
	}
}

// loadZone is Stribeck's load at an angle (turns) from the load's direction,
// relative to its maximum: (1 - (1 - cos angle)/(2 extent))^1.5, zero outside
// the zone, for extent 0.4 (a bearing with clearance: a zone of 157 degrees).
func loadZone(turn float64) float64 {
	const extent = 0.4
	x := 1 - (1-sine(turn+0.25))/(2*extent)
	if x <= 0 {
		return 0
	}
	return float64(x * math.Sqrt(x))
}
