package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// rival detects changes in a series of numbers.
type rival interface{ update(x float64) bool }

type ours struct {
	Plan
	Detector
	*rand.Rand
}

func (o *ours) update(x float64) bool { return o.Detector.Update(o.Plan, float32(x), o.Uint64()) != 0 }

// pageHinkley is the two-sided test of Page 1954 in Hinkley's form (1971), with River's default
// parameters: least values 30, delta .005, threshold 50, and the sums forget with alpha .9999.
type pageHinkley struct{ n, mean, up, down, least, most float64 }

func (p *pageHinkley) update(x float64) bool {
	p.n++
	p.mean += (x - p.mean) / p.n
	p.up = .9999*p.up + x - p.mean - .005
	p.down = .9999*p.down + x - p.mean + .005
	p.least, p.most = min(p.least, p.up), max(p.most, p.down)
	if p.n >= 30 && (p.up-p.least > 50 || p.most-p.down > 50) {
		*p = pageHinkley{}
		return true
	}
	return false
}

// kswin is Raab, Heusinger and Schleif 2020: the last 30 of 100 values are compared with 30 of the
// previous 70, drawn at random, by the test of Kolmogorov and Smirnov at .005.
type kswin struct {
	*rand.Rand
	window []float64
}

func (k *kswin) update(x float64) bool {
	if len(k.window) == 100 {
		k.window = k.window[1:]
	}
	if k.window = append(k.window, x); len(k.window) < 100 {
		return false
	}
	recent := slices.Clone(k.window[70:])
	var older []float64
	for _, i := range k.Perm(70)[:30] {
		older = append(older, k.window[i])
	}
	slices.Sort(recent)
	slices.Sort(older)
	if 30*distance(recent, older) < ksLeast-.5 {
		return false
	}
	k.window = slices.Clone(k.window[70:])
	return true
}

// distance returns the largest difference of two distributions.
func distance(a, b []float64) (most float64) {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if a[i] <= b[j] {
			i++
		} else {
			j++
		}
		most = max(most, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return most
}

// ksLeast is the smallest 30 D of two samples of 30 with a p of at most .005: the sum over the
// reflected paths of Gnedenko and Korolyuk 1951.
var ksLeast = func() float64 {
	for d := 1.; ; d++ {
		p, sign := 0., 2.
		for j := d; j <= 30; j += d {
			a, _ := math.Lgamma(31 + j)
			b, _ := math.Lgamma(31 - j)
			c, _ := math.Lgamma(31)
			p += sign * math.Exp(2*c-a-b)
			sign = -sign
		}
		if p <= .005 {
			return d
		}
	}
}()

// adwin is Bifet and Gavalda 2007, with River's parameters: delta .002, a check every 32 values, 5
// buckets of each size, at least 5 values on each side of a cut and 10 in total.
type adwin struct {
	rows            [][]bucket // row i: buckets of 2^i values, the oldest last
	n               int
	total, variance float64 // variance: sum of squared deviations
	seen            int
}

type bucket struct{ total, variance float64 }

func (a *adwin) update(x float64) bool {
	if a.rows == nil {
		a.rows = [][]bucket{nil}
	}
	if a.n++; a.n > 1 {
		before := a.total / float64(a.n-1)
		a.variance += float64(a.n-1) * (x - before) * (x - before) / float64(a.n)
	}
	a.total += x
	a.rows[0] = slices.Insert(a.rows[0], 0, bucket{x, 0})
	for i := 0; i < len(a.rows) && len(a.rows[i]) > 5; i++ {
		row := a.rows[i]
		p, q := row[len(row)-1], row[len(row)-2]
		a.rows[i] = row[:len(row)-2]
		m := math.Ldexp(1, i)
		merged := bucket{p.total + q.total, p.variance + q.variance + (p.total/m-q.total/m)*(p.total/m-q.total/m)*m/2}
		if i+1 == len(a.rows) {
			a.rows = append(a.rows, nil)
		}
		a.rows[i+1] = slices.Insert(a.rows[i+1], 0, merged)
	}
	a.seen++
	found := false
	for a.seen%32 == 0 && a.n > 10 && a.cutWindow() {
		found = true
	}
	return found
}

// cutWindow drops the oldest bucket if two parts of the window differ.
func (a *adwin) cutWindow() bool {
	n0, sum0 := 0., 0.
	for i := len(a.rows) - 1; i >= 0; i-- {
		for j := len(a.rows[i]) - 1; j >= 0; j-- {
			n0 += math.Ldexp(1, i)
			sum0 += a.rows[i][j].total
			n1 := float64(a.n) - n0
			if n0 < 5 || n1 < 5 {
				continue
			}
			about := math.Log(2 * math.Log(float64(a.n)) / .002)
			recip := 1/(n0-5+1) + 1/(n1-5+1)
			eps := math.Sqrt(2*recip*a.variance/float64(a.n)*about) + 2./3*recip*about
			if math.Abs(sum0/n0-(a.total-sum0)/n1) > eps {
				a.dropOldest()
				return true
			}
		}
	}
	return false
}

func (a *adwin) dropOldest() {
	last := len(a.rows) - 1
	row := a.rows[last]
	b, m := row[len(row)-1], math.Ldexp(1, last)
	if a.rows[last] = row[:len(row)-1]; len(row) == 1 && last > 0 {
		a.rows = a.rows[:last]
	}
	rest := float64(a.n) - m
	a.n -= int(m)
	a.total -= b.total
	d := b.total/m - a.total/rest
	a.variance = max(0, a.variance-b.variance-m*rest/(m+rest)*d*d)
}

// newSeries returns series without a change, with dependent values of mean 0 and deviation 1.
func newSeries(name string, r *rand.Rand) func() float64 {
	ar := func(phi float64) func() float64 {
		x := r.NormFloat64()
		return func() float64 { x = phi*x + math.Sqrt(1-phi*phi)*r.NormFloat64(); return x }
	}
	mixed := func(share float64, slow func() float64) func() float64 {
		return func() float64 { return math.Sqrt(share)*slow() + math.Sqrt(1-share)*r.NormFloat64() }
	}
	switch name {
	case "AR .2":
		return ar(.2)
	case "AR .5":
		return ar(.5)
	case "AR .9":
		return ar(.9)
	case "AR .99":
		return ar(.99)
	case "sum of two":
		a := r.NormFloat64()
		return func() float64 { b := a; a = r.NormFloat64(); return (a + b) / math.Sqrt2 }
	case "period of 100":
		i := r.Float64() * 100
		return mixed(1./3, func() float64 { i++; return math.Sqrt2 * math.Sin(2*math.Pi*i/100) })
	case "a tenth slow": // AR .95
		return mixed(.1, ar(.95))
	case "a third slow": // AR .98
		return mixed(.3, ar(.98))
	case "GARCH": // Bollerslev 1986: restless times
		return garch(.15, .8, r)
	case "GARCH .1 .88":
		return garch(.1, .88, r)
	case "a tenth slower":
		return mixed(.1, ar(.99))
	case "half slower":
		return mixed(.5, ar(.99))
	case "volatile, heavy tails": // the logarithm of the variance AR .97, Student's t of 3
		v := ar(.97)
		return func() float64 { return math.Exp(v()/2-.25) * student(r) }
	case "two states": // deviations of .45 and 1.34, for 200 values each on average
		restless := false
		return func() float64 {
			if r.IntN(200) == 0 {
				restless = !restless
			}
			if restless {
				return math.Sqrt(1.8) * r.NormFloat64()
			}
			return math.Sqrt(.2) * r.NormFloat64()
		}
	case "AR .995":
		return ar(.995)
	case "oscillation": // AR(2), about 20 values, damped by .95 each
		a, b := 2*.95*math.Cos(2*math.Pi/20), -.95*.95
		noise := math.Sqrt(((1-b)*(1-b) - a*a) * (1 + b) / (1 - b))
		x, before := 0., 0.
		next := func() float64 { x, before = a*x+b*before+noise*r.NormFloat64(), x; return x }
		for range 500 {
			next()
		}
		return next
	case "missing stretches": // of 100 values, one in 50, of AR .9
		x := ar(.9)
		return func() float64 {
			if r.IntN(50) == 0 {
				for range 100 {
					x()
				}
			}
			return x()
		}
	case "half .9, heavy tails":
		x := ar(.9)
		return func() float64 { return (x() + student(r)) / math.Sqrt2 }
	case "restless by the hour": // the deviation is a sine of 500 values
		i := r.Float64() * 500
		return func() float64 {
			i++
			return (1 + .5*math.Sin(2*math.Pi*i/500)) / math.Sqrt(1.125) * r.NormFloat64()
		}
	}
	return r.NormFloat64
}

func garch(a, b float64, r *rand.Rand) func() float64 {
	v, x := 1., 0.
	return func() float64 { v = 1 - a - b + a*x*x + b*v; x = math.Sqrt(v) * r.NormFloat64(); return x }
}

// student returns Student's t of 3, with deviation 1.
func student(r *rand.Rand) float64 {
	c := 0.
	for range 3 {
		x := r.NormFloat64()
		c += x * x
	}
	return r.NormFloat64() / math.Sqrt(c)
}

var (
	plants = []string{"independent", "AR .2", "AR .5", "AR .9", "AR .99", "sum of two", "period of 100", "a tenth slow", "a third slow", "GARCH"}
	// Only for our detector: series used to select its constants, and other series.
	chosenWith = []string{"GARCH .1 .88", "volatile, heavy tails", "a tenth slower", "half slower", "two states"}
	others     = []string{"AR .995", "oscillation", "missing stretches", "half .9, heavy tails", "restless by the hour"}
)

// willJudge reports whether the next value would be judged.
func (o *ours) willJudge() bool {
	d := &o.Detector
	if d.Level == nil {
		return false
	}
	_, alike := d.Level.Alike.inflation()
	_, restless := d.Spread.Alike.inflation()
	return d.isReady(max(alike, restless)) && !d.Level.Alike.isGrowing()
}

// TestRivals prints the figures of docs/results.md: EUSN_DRIFT is the number of runs of
// a million stable values. The other detectors are only for comparison, written from the papers.
func TestRivals(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("EUSN_DRIFT"))
	if runs == 0 {
		t.Skip("NOT CHECKED: a measurement: set EUSN_DRIFT to a number of runs, such as 20")
	}
	plan := func(shift float64) Plan {
		p, err := NewPlan(1e6, shift)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	seed := uint64(13)
	if text := os.Getenv("EUSN_DRIFT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	type made struct {
		name string
		new  func(r *rand.Rand) rival
	}
	rivals := []made{
		{"ours, shift .5", func(r *rand.Rand) rival { return &ours{Plan: plan(.5), Rand: r} }},
		{"ours, shift 1", func(r *rand.Rand) rival { return &ours{Plan: plan(1), Rand: r} }},
		{"ADWIN", func(*rand.Rand) rival { return new(adwin) }},
		{"Page-Hinkley", func(*rand.Rand) rival { return new(pageHinkley) }},
		{"KSWIN", func(r *rand.Rand) rival { return &kswin{Rand: r} }},
	}
	// Streams of 100,000 values each; the change follows after 50,000.
	stable := func(t *testing.T, of string, c made) {
		r := rand.New(rand.NewPCG(seed, 14))
		alarms := 0
		for range 10 * runs {
			d, next := c.new(r), newSeries(of, r)
			for range 100_000 {
				if d.update(next()) {
					alarms++
				}
			}
		}
		text := ""
		var judged []int
		for _, shift := range []float64{.5, 1, 2} {
			var delays []int
			for range 40 {
				d, next := c.new(r), newSeries(of, r)
				o, _ := d.(*ours)
				for i := range 50_000 {
					d.update(next())
					if o != nil && o.willJudge() {
						judged, o = append(judged, i+1), nil
					}
				}
				n := 1
				for !d.update(shift+next()) && n < 50_000 {
					n++
				}
				delays = append(delays, n)
			}
			slices.Sort(delays)
			text += fmt.Sprintf(", %v: %d (%d)", shift, delays[20], delays[37])
		}
		if len(judged) > 60 {
			slices.Sort(judged)
			text += fmt.Sprintf("; judged from value %d", judged[60])
		}
		t.Logf("%s: %s: %d false alarms in %d million values; found%s", of, c.name, alarms, runs, text)
	}
	for i, of := range slices.Concat(plants, chosenWith, others) {
		for _, c := range rivals {
			if i < len(plants) || c.name == rivals[0].name {
				t.Run(of+"/"+c.name, func(t *testing.T) { stable(t, of, c) })
			}
		}
	}
	after := func(t *testing.T, c made) {
		r := rand.New(rand.NewPCG(3, 4))
		alarms := 0
		for range runs {
			d := c.new(r)
			for range 1_000_000 {
				if d.update(r.NormFloat64()) {
					alarms++
				}
			}
		}
		t.Logf("%s: %d false alarms in %d million values", c.name, alarms, runs)
		for _, before := range []int{500, 5_000, 50_000} {
			for _, shift := range []float64{.5, 1, 2} {
				var delays []int
				for range 200 {
					d := c.new(r)
					for range before {
						d.update(r.NormFloat64())
					}
					n := 1
					for !d.update(shift+r.NormFloat64()) && n < 100_000 {
						n++
					}
					delays = append(delays, n)
				}
				slices.Sort(delays)
				t.Logf("%s: %d values, then a shift of %v deviations: found after %d (median), %d (95 of 100)", c.name, before, shift, delays[100], delays[190])
			}
		}
	}
	for _, c := range rivals {
		t.Run("after/"+c.name, func(t *testing.T) { after(t, c) })
	}
}
