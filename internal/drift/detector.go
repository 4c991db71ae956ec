package drift

import (
	"fmt"
	"math"
	"slices"
)

const (
	// Learning is how many values a detector sees before it judges one.
	Learning = 128
	// Bins is how many it sorts them into.
	Bins = 64
	// Unit is one deviation of z, of k and of h.
	Unit = 1 << 12
	// Deviations is the largest |z|.
	Deviations = 3.5

	grid = 1 << 12 // values of p
)

// normal is z of the middle of each of grid parts of 0..1, in 1/Unit.
var normal = func() (z [grid]int32) {
	for i := grid / 2; i < grid; i++ {
		p := (float64(i) + .5) / grid
		z[i] = int32(math.Round(Unit * min(Deviations, math.Sqrt2*math.Erfinv(2*p-1))))
		z[grid-1-i] = -z[i]
	}
	return z
}()

// Verdict is what a detector has found: none or some of these.
type Verdict uint8

// What has changed.
const (
	Up       Verdict = 1 << iota // the level has risen
	Down                         // the level has fallen
	Wider                        // the spread has grown
	Narrower                     // the spread has shrunk
)

// String names what was found, with + between.
func (v Verdict) String() string {
	s := ""
	for i, name := range []string{"up", "down", "wider", "narrower"} {
		if v>>i&1 == 0 {
			continue
		}
		if s != "" {
			s += "+"
		}
		s += name
	}
	if s == "" {
		return "none"
	}
	return s
}

// Plan is how detectors judge.
type Plan struct {
	k, h int64 // in 1/Unit
}

// The limits of a plan.
const (
	LeastBetween, MostBetween = 100, 1e12
	LeastShift, MostShift     = 0.1, 4
)

// NewPlan is a plan with so many values between two false alarms in the mean, all four
// charts together, that finds a shift of so many deviations soonest.
//
// The threshold follows from Siegmund's approximation ("Sequential Analysis", 1985,
// 2.57): a chart alarms after (exp(2kb) - 2kb - 1) / (2 k^2) values, b = h + 1.166. Of
// four charts, one alarms four times as often. The formula is a little low where h is
// large: with four, there were 22 false alarms in 20 million values, not 20. So it is
// five.
func NewPlan(between, shift float64) (Plan, error) {
	if !(between >= LeastBetween && between <= MostBetween) {
		return Plan{}, fmt.Errorf("drift: %v values between false alarms, want %v to %v", between, LeastBetween, MostBetween)
	}
	if !(shift >= LeastShift && shift <= MostShift) {
		return Plan{}, fmt.Errorf("drift: a shift of %v deviations, want %v to %v", shift, LeastShift, MostShift)
	}
	k := shift / 2
	lo, hi := 0., 1e4
	for range 100 {
		b := (lo + hi) / 2
		if x := 2 * k * b; x > 600 || (math.Exp(x)-x-1)/(2*k*k) > 5*between {
			hi = b
		} else {
			lo = b
		}
	}
	// To a hundredth, so that the last bits of an exponential do not show.
	h := math.Ceil(100*max(hi-1.166, .5)) / 100
	return Plan{k: int64(math.Round(k * Unit)), h: int64(math.Round(h * Unit))}, nil
}

// Threshold is where a chart finds drift, in deviations.
func (p Plan) Threshold() float64 { return float64(p.h) / Unit }

// Detector is what is remembered of one series. The zero Detector has seen nothing. It
// has at most about 4 kB, and is stored as JSON.
type Detector struct {
	First  []float32 `json:"first,omitempty"` // the values, while there are fewer than Learning
	Seen   uint64    `json:"seen,omitempty"`  // how many there are, once there are more
	Level  *Chart    `json:"level,omitempty"`
	Spread *Chart    `json:"spread,omitempty"`
	Median float32   `json:"median,omitempty"`
	Last   int64     `json:"last,omitempty"`  // z of the level, in 1/Unit
	Rough  int64     `json:"rough,omitempty"` // memory times the variance of the last few, in 1/Unit^2

	Width  uint64    `json:"width,omitempty"`  // values whose mean is judged as one; 0: 1
	Sum    float64   `json:"sum,omitempty"`    // of those that wait for their mean
	Wait   uint64    `json:"wait,omitempty"`   // how many these are
	Before *[2]Alike `json:"before,omitempty"` // of the charts before the last change
}

// Chart is two cumulative sums of one kind of value, and its reference.
type Chart struct {
	Edges []float32 `json:"edges"` // ascending; bin i has the values up to Edges[i], and the last one what is above
	Count []uint64  `json:"count"`
	Rise  int64     `json:"rise"` // in 1/Unit
	Fall  int64     `json:"fall"`
	Alike Alike     `json:"alike,omitzero"` // up to the last value at which both sums were low
	Now   Alike     `json:"now,omitzero"`   // up to the last value
}

// Update judges the next value, or the mean of the last Width. u is any number that has nothing to do with the value,
// another one each time: a hash of the place in the series, so that a replay has the
// same. What is not a number is left out. It returns what has changed. Then the detector
// begins anew: what comes after a change is learned as the next reference. How much
// values are alike it remembers.
func (d *Detector) Update(p Plan, x float32, u uint64) (v Verdict) {
	if x != x {
		return 0
	}
	x = finite(x)
	if d.Width > 1 {
		d.Sum += float64(x)
		if d.Wait++; d.Wait < d.Width {
			return 0
		}
		x = float32(d.Sum / float64(d.Width))
		d.Sum, d.Wait = 0, 0
	}
	if d.Level == nil {
		if d.First = append(d.First, x); len(d.First) == Learning {
			d.learn()
		}
		return 0
	}
	level, spread := d.Level.rank(x, d.Seen, uint32(u)), d.Spread.rank(apart(x, d.Median), d.Seen, uint32(u>>32))
	d.Seen++
	wider, restless := d.Spread.add(p, spread)
	if calm := d.calm(level); restless > 1 {
		level = calm
	}
	higher, alike := d.Level.add(p, level)
	if !d.ready(max(alike, restless)) {
		return 0
	}
	v = d.Level.judge(p, higher) | d.Spread.judge(p, wider)<<2
	if v != 0 {
		*d = Detector{Width: d.Width, Before: &[2]Alike{d.Level.Alike, d.Spread.Alike}}
	}
	return v
}

// ready reports whether the values so far are worth enough independent ones: for each of
// those there are surely so many of these.
func (d *Detector) ready(surely float64) bool {
	return float64(d.Level.Now.Values*max(1, d.Width)) >= Waiting*surely && float64(d.Seen) >= Learning*surely
}

// calm is z of the level, divided by the deviation of the last few, where that is more than
// one. It is taken from how much each differs from the one before, so that a shift is in it
// only once.
func (d *Detector) calm(z int64) int64 {
	step := z - d.Last
	d.Last = z
	d.Rough += step*step/2 - d.Rough/memory
	if v := float64(d.Rough) / (memory * Unit * Unit); v > 1 {
		return int64(float64(z) / math.Sqrt(v))
	}
	return z
}

// finite is x, or the largest number there is: JSON has no infinity.
func finite(x float32) float32 { return min(max(x, -math.MaxFloat32), math.MaxFloat32) }

func apart(x, median float32) float32 { return finite(max(x-median, median-x)) }

// learn makes bins of the first values. Where neighbours are too much alike, their means
// take their places instead, and it waits for more.
func (d *Detector) learn() {
	sorted := slices.Sorted(slices.Values(d.First))
	d.Median = sorted[Learning/2]
	from := make([]float32, Learning)
	for i, x := range d.First {
		from[i] = apart(x, d.Median)
	}
	spread := slices.Sorted(slices.Values(from))
	level, wide := neighbours(d.First, sorted), neighbours(from, spread)
	if width := max(1, d.Width); d.Before == nil && (level.much() || wide.much()) && width < MostWidth {
		for i := range Learning / 2 {
			d.First[i] = float32((float64(d.First[2*i]) + float64(d.First[2*i+1])) / 2)
		}
		d.First, d.Width = d.First[:Learning/2], 2*width
		return
	}
	d.Level, d.Spread = binned(sorted), binned(spread)
	if d.Before != nil {
		level, wide = d.Before[0], d.Before[1]
		d.Before = nil
	}
	d.Level.Alike, d.Spread.Alike = level, wide
	d.Level.Now, d.Spread.Now = level, wide
	d.First, d.Seen = nil, Learning
}

// binned has equally many of the values in each bin, as far as they differ.
func binned(sorted []float32) *Chart {
	c := new(Chart)
	for i := 1; i < Bins; i++ {
		edge := sorted[i*len(sorted)/Bins-1]
		if n := len(c.Edges); n == 0 || c.Edges[n-1] < edge {
			c.Edges = append(c.Edges, edge)
		}
	}
	c.Count = make([]uint64, len(c.Edges)+1)
	for _, x := range sorted {
		c.Count[c.bin(x)]++
	}
	return c
}

func (c *Chart) bin(x float32) int {
	i, _ := slices.BinarySearch(c.Edges, x)
	return i
}

// rank is z of a value behind n others, which becomes one of them.
func (c *Chart) rank(x float32, n uint64, u uint32) int64 {
	bin := c.bin(x)
	below := uint64(0)
	for _, m := range c.Count[:bin] {
		below += m
	}
	c.Count[bin]++
	alike := c.Count[bin]
	for n >= 1<<31 { // so that what follows fits into 64 bits
		below, alike, n = below>>1, alike>>1, n>>1
	}
	// The first 12 bits of (below + u/2^32 alike) / (n+1).
	at := (below<<32 + uint64(u)*alike) / (n + 1) >> (32 - 12)
	return int64(normal[min(at, grid-1)])
}

// add moves the sums by z. It returns what Alike.inflation does.
func (c *Chart) add(p Plan, z int64) (factor, surely float64) {
	c.Now.add(z)
	c.Rise = max(0, c.Rise+z-p.k)
	c.Fall = max(0, c.Fall-z-p.k)
	if max(c.Rise, c.Fall) < p.h/low {
		c.Alike = c.Now
	}
	return c.Alike.inflation()
}

// judge is Up where the first sum has come to its threshold times the factor, Down where
// the second has.
func (c *Chart) judge(p Plan, factor float64) (v Verdict) {
	if c.Alike.grows() {
		return 0
	}
	h := int64(float64(p.h) * factor)
	if c.Rise >= h {
		v |= Up
	}
	if c.Fall >= h {
		v |= Down
	}
	return v
}
