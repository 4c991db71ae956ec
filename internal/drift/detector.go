package drift

import (
	"fmt"
	"math"
	"slices"
)

const (
	// Learning is the number of values before a detector judges a value.
	Learning = 128
	// Bins is the number of bins.
	Bins = 64
	// Unit is one deviation of z, of k and of h.
	Unit = 1 << 12
	// Deviations is the largest |z|.
	Deviations = 3.5

	grid = 1 << 12 // values of p
)

// normal has z for the middle of each of grid parts of 0..1, in 1/Unit.
var normal = func() (z [grid]int32) {
	for i := grid / 2; i < grid; i++ {
		p := (float64(i) + .5) / grid
		z[i] = int32(math.Round(Unit * min(Deviations, math.Sqrt2*math.Erfinv(2*p-1))))
		z[grid-1-i] = -z[i]
	}
	return z
}()

// Verdict is the set of detected changes.
type Verdict uint8

// The kinds of changes.
const (
	Up       Verdict = 1 << iota // the level has risen
	Down                         // the level has fallen
	Wider                        // the spread has grown
	Narrower                     // the spread has shrunk
)

// String returns the names of the changes, joined by +.
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

// Plan has the parameters of detectors.
type Plan struct {
	k, h int64 // in 1/Unit
}

// The limits of a plan.
const (
	LeastBetween, MostBetween = 100, 1e12
	LeastShift, MostShift     = 0.1, 4
)

// NewPlan returns a plan with a mean number of values between two false alarms, of all four charts
// together, that detects a shift in deviations fastest.
//
// The threshold follows from Siegmund's approximation ("Sequential Analysis", 1985, 2.57): a chart
// alarms after (exp(2kb) - 2kb - 1) / (2 k^2) values, b = h + 1.166. Four charts alarm four times
// as often. The formula is slightly low for large h: with four, there were 22 false alarms in 20
// million values, not 20. The factor is therefore five.
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
	// Rounded to a hundredth, to hide the last bits of the exponential.
	h := math.Ceil(100*max(hi-1.166, .5)) / 100
	return Plan{k: int64(math.Round(k * Unit)), h: int64(math.Round(h * Unit))}, nil
}

// Threshold returns a chart's threshold, in deviations.
func (p Plan) Threshold() float64 { return float64(p.h) / Unit }

// Detector is the state of one series. The zero Detector has no values. Its size is at most about 4
// kB; it is stored as JSON.
type Detector struct {
	First  []float32 `json:"first,omitempty"` // the first values, fewer than Learning
	Seen   uint64    `json:"seen,omitempty"`  // number of values after Learning
	Level  *Chart    `json:"level,omitempty"`
	Spread *Chart    `json:"spread,omitempty"`
	Median float32   `json:"median,omitempty"`
	Last   int64     `json:"last,omitempty"`  // z of the level, in 1/Unit
	Rough  int64     `json:"rough,omitempty"` // memory times the variance of the last values, in 1/Unit^2

	Width  uint64         `json:"width,omitempty"`  // number of values that are averaged into one; 0: 1
	Sum    float64        `json:"sum,omitempty"`    // sum of the values in the open average
	Wait   uint64         `json:"wait,omitempty"`   // number of these values
	Before *[2]Dependence `json:"before,omitempty"` // of the charts before the last change
}

// Chart has two cumulative sums of one statistic, and its reference.
type Chart struct {
	Edges []float32  `json:"edges"` // ascending; bin i has the values up to Edges[i], the last bin the larger values
	Count []uint64   `json:"count"`
	Rise  int64      `json:"rise"` // in 1/Unit
	Fall  int64      `json:"fall"`
	Alike Dependence `json:"alike,omitzero"` // up to the last value with both sums low
	Now   Dependence `json:"now,omitzero"`   // up to the last value
}

// Update judges the next value, or the mean of the last Width values. u must be independent of the
// value, and different for each value: a hash of the place in the series, so that a replay has the
// same u. NaN is skipped. Update returns the detected changes. After a change the detector
// restarts: the following values are the next reference. The measured dependence is kept.
func (d *Detector) Update(p Plan, x float32, u uint64) (v Verdict) {
	if x != x {
		return 0
	}
	x = limitFinite(x)
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
			d.learnReference()
		}
		return 0
	}
	level, spread := d.Level.rank(x, d.Seen, uint32(u)), d.Spread.rank(absDifference(x, d.Median), d.Seen, uint32(u>>32))
	d.Seen++
	wider, restless := d.Spread.addValue(p, spread)
	if calm := d.normalize(level); restless > 1 {
		level = calm
	}
	higher, alike := d.Level.addValue(p, level)
	if !d.isReady(max(alike, restless)) {
		return 0
	}
	v = d.Level.judge(p, higher) | d.Spread.judge(p, wider)<<2
	if v != 0 {
		*d = Detector{Width: d.Width, Before: &[2]Dependence{d.Level.Alike, d.Spread.Alike}}
	}
	return v
}

// isReady reports whether the values are equivalent to enough independent values; surely is the
// number of values per independent value.
func (d *Detector) isReady(surely float64) bool {
	return float64(d.Level.Now.Values*max(1, d.Width)) >= Waiting*surely && float64(d.Seen) >= Learning*surely
}

// normalize returns z of the level, divided by the deviation of the last values if this is more
// than one. The deviation is computed from successive differences, so that a shift counts only
// once.
func (d *Detector) normalize(z int64) int64 {
	step := z - d.Last
	d.Last = z
	d.Rough += step*step/2 - d.Rough/memory
	if v := float64(d.Rough) / (memory * Unit * Unit); v > 1 {
		return int64(float64(z) / math.Sqrt(v))
	}
	return z
}

// limitFinite returns x without infinities, which JSON does not allow.
func limitFinite(x float32) float32 { return min(max(x, -math.MaxFloat32), math.MaxFloat32) }

func absDifference(x, median float32) float32 { return limitFinite(max(x-median, median-x)) }

// learnReference creates bins from the first values. If neighbors depend too much on each other,
// the values are replaced by their means, and learning continues.
func (d *Detector) learnReference() {
	sorted := slices.Sorted(slices.Values(d.First))
	d.Median = sorted[Learning/2]
	from := make([]float32, Learning)
	for i, x := range d.First {
		from[i] = absDifference(x, d.Median)
	}
	spread := slices.Sorted(slices.Values(from))
	level, wide := measureDependence(d.First, sorted), measureDependence(from, spread)
	if width := max(1, d.Width); d.Before == nil && (level.needsAveraging() || wide.needsAveraging()) && width < MostWidth {
		for i := range Learning / 2 {
			d.First[i] = float32((float64(d.First[2*i]) + float64(d.First[2*i+1])) / 2)
		}
		d.First, d.Width = d.First[:Learning/2], 2*width
		return
	}
	d.Level, d.Spread = newChart(sorted), newChart(spread)
	if d.Before != nil {
		level, wide = d.Before[0], d.Before[1]
		d.Before = nil
	}
	d.Level.Alike, d.Spread.Alike = level, wide
	d.Level.Now, d.Spread.Now = level, wide
	d.First, d.Seen = nil, Learning
}

// newChart returns a chart with about the same number of values in each bin.
func newChart(sorted []float32) *Chart {
	c := new(Chart)
	for i := 1; i < Bins; i++ {
		edge := sorted[i*len(sorted)/Bins-1]
		if n := len(c.Edges); n == 0 || c.Edges[n-1] < edge {
			c.Edges = append(c.Edges, edge)
		}
	}
	c.Count = make([]uint64, len(c.Edges)+1)
	for _, x := range sorted {
		c.Count[c.findBin(x)]++
	}
	return c
}

func (c *Chart) findBin(x float32) int {
	i, _ := slices.BinarySearch(c.Edges, x)
	return i
}

// rank returns z of a value after n other values, and adds the value to its bin.
func (c *Chart) rank(x float32, n uint64, u uint32) int64 {
	bin := c.findBin(x)
	below := uint64(0)
	for _, m := range c.Count[:bin] {
		below += m
	}
	c.Count[bin]++
	alike := c.Count[bin]
	for n >= 1<<31 { // so that the next lines fit into 64 bits
		below, alike, n = below>>1, alike>>1, n>>1
	}
	// The first 12 bits of (below + u/2^32 alike) / (n+1).
	at := (below<<32 + uint64(u)*alike) / (n + 1) >> (32 - 12)
	return int64(normal[min(at, grid-1)])
}

// addValue adds z to the sums. It returns the result of Dependence.inflation.
func (c *Chart) addValue(p Plan, z int64) (factor, surely float64) {
	c.Now.addValue(z)
	c.Rise = max(0, c.Rise+z-p.k)
	c.Fall = max(0, c.Fall-z-p.k)
	if max(c.Rise, c.Fall) < p.h/lowPart {
		c.Alike = c.Now
	}
	return c.Alike.inflation()
}

// judge returns Up if the first sum has reached its threshold times the factor, Down for the second
// sum.
func (c *Chart) judge(p Plan, factor float64) (v Verdict) {
	if c.Alike.isGrowing() {
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
