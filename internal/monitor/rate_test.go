package monitor_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/monitor"
	"github.com/eusn-stream/eusn-stream/internal/testing/sequencetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const ms = int64(1e6)

// clockOf returns the clock of a sequence's times, added in pieces.
func clockOf(times []int64, piece func() int) (c monitor.Clock) {
	c.Begin(times[0])
	for at := 1; at < len(times); {
		n := min(piece(), len(times)-at)
		c.AddTimes(times[at:at+n], times[at-1])
		at += n
	}
	return c
}

// TestRateIsTheDefinition: the result of a sequence's times matches the definition and does not
// depend on the messages.
func TestRateIsTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	off, on := 0, 0
	for range 4000 {
		training := reservoir.Training{Rate: []float64{100, 333, 1000, 25600.5}[rng.IntN(4)]}
		period := 1e9 / training.Rate
		if rng.IntN(2) == 0 {
			training.LongestInterval = int64(period * (1 + 3*rng.Float64()))
		}
		tolerance := []float64{.01, .05, .5}[rng.IntN(3)]
		pace := []float64{1, 1, 1.02, .97, 1.3, .5}[rng.IntN(6)] * period
		times := []int64{1_700_000_000_000_000_000 + rng.Int64N(1e9)}
		for range rng.IntN(60) {
			d := pace * (1 + .1*(rng.Float64()-.5))
			switch rng.IntN(150) {
			case 0:
				d = 2 * period // one sample was lost
			case 1:
				d = -d
			}
			times = append(times, times[len(times)-1]+int64(d))
		}
		if rng.IntN(20) == 0 {
			times[rng.IntN(len(times))] = monitor.NoTime
		}
		c := clockOf(times, func() int { return rng.IntN(9) })
		r := monitor.NewRate(training, tolerance)
		want := sequencetest.OffRate(training, tolerance, times)
		if got := r.IsOff(&c, times[len(times)-1]); got != want {
			t.Fatalf("rate %g, longest %d, tolerance %g, times %v: off %v, want %v", training.Rate, training.LongestInterval, tolerance, times, got, want)
		}
		if want {
			off++
		} else {
			on++
		}
	}
	if off < 500 || on < 500 {
		t.Errorf("%d off, %d not: one side is hardly tested", off, on)
	}
}

// TestRateLimits: the documented limits, and missing times.
func TestRateLimits(t *testing.T) {
	steps := func(n int, step int64, last ...int64) []int64 {
		times := []int64{0}
		for range n {
			times = append(times, times[len(times)-1]+step)
		}
		for _, d := range last {
			times = append(times, times[len(times)-1]+d)
		}
		return times
	}
	lo, hi := int64(math.MinInt64+1), int64(math.MaxInt64)
	at100 := reservoir.Training{Rate: 100}
	for _, c := range []struct {
		name  string
		of    reservoir.Training
		times []int64
		off   bool
	}{
		{"at the rate", at100, steps(200, 10*ms), false},
		{"4 % slow", at100, steps(1000, 10*ms+4*ms/10), false},
		{"6 % slow", at100, steps(1000, 10*ms+6*ms/10), true},
		{"6 % fast", at100, steps(1000, 10*ms-6*ms/10), true},
		{"6 % slow, few samples", at100, steps(20, 10*ms+6*ms/10), false},
		{"twice as fast, two intervals", at100, steps(2, 5*ms), false},
		{"twice as fast, three", at100, steps(3, 5*ms), true},
		{"one sample", at100, steps(0, 1), false},
		{"1.5 intervals", at100, steps(9, 10*ms, 15*ms), false},
		{"more: a sample was lost", at100, steps(9, 10*ms, 15*ms+1), true},
		{"as training had it", reservoir.Training{Rate: 100, LongestInterval: 40 * ms}, steps(100, 10*ms, 60*ms), false},
		{"longer", reservoir.Training{Rate: 100, LongestInterval: 40 * ms}, steps(100, 10*ms, 60*ms+1), true},
		{"ten at once, as a gateway stamps them", reservoir.Training{Rate: 100, LongestInterval: 100 * ms},
			steps(9, 0, 100*ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100*ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100*ms), false},
		{"back in time", at100, steps(50, 10*ms, -1), true},
		{"a time is missing", at100, append(steps(9, ms), monitor.NoTime), false},
		{"and before others", at100, append([]int64{monitor.NoTime}, steps(9, ms)...), false},
		{"the ends of time", at100, []int64{lo, hi}, true},
		{"and back", at100, []int64{hi, lo}, true},
		{"no rate", reservoir.Training{}, steps(50, 1, -1), false},
	} {
		clock := clockOf(c.times, func() int { return 7 })
		if got := monitor.NewRate(c.of, .05).IsOff(&clock, c.times[len(c.times)-1]); got != c.off {
			t.Errorf("%s: off %v, want %v", c.name, got, c.off)
		}
		if monitor.NewRate(c.of, 0).IsOff(&clock, c.times[len(c.times)-1]) {
			t.Errorf("%s: off without a tolerance", c.name)
		}
	}
	c := clockOf(steps(4, 10*ms, -5*ms), func() int { return 1 })
	if p := c.Period(35 * ms); p != 0 {
		t.Errorf("period %v of a sequence in which time went back, want none", p)
	}
	c = clockOf(steps(4, 10*ms), func() int { return 1 })
	if p := c.Period(40 * ms); p != 1e7 || c.Longest != 10*ms {
		t.Errorf("period %v, longest %d, want 10 ms", p, c.Longest)
	}
}

// TestRateOfEndless: an endless sequence with more intervals than the count can hold is still
// judged, in any division.
func TestRateOfEndless(t *testing.T) {
	const rate = 25600
	at := func(n int) int64 { return int64(float64(n) * 1e9 / rate) }
	r := monitor.NewRate(reservoir.Training{Rate: rate}, .05)
	full := monitor.Clock{Count: math.MaxUint32 - 10, Longest: at(1) + 1}
	begin := math.MaxUint32 - 10
	for name, c := range map[string]struct {
		pace float64
		off  bool
	}{"at the rate": {1, false}, "slow": {1.3, true}} {
		var times []int64
		for n := range 200 {
			times = append(times, at(begin)+int64(float64(at(n+1))*c.pace))
		}
		var ends []monitor.Clock
		for _, piece := range []int{1, 7, 200} {
			clock, before := full, at(begin)
			for from := 0; from < len(times); from += piece {
				some := times[from:min(len(times), from+piece)]
				clock.AddTimes(some, before)
				before = some[len(some)-1]
				if off := r.IsOff(&clock, before); off && !c.off {
					t.Fatalf("%s: off after %d more, in pieces of %d: %+v", name, from, piece, clock)
				}
			}
			if off := r.IsOff(&clock, before); off != c.off {
				t.Errorf("%s: off %v, want %v: %+v", name, off, c.off, clock)
			}
			if clock.Count != 190 || clock.First != times[9] {
				t.Errorf("%s: the clock is %+v, want 190 intervals since %d", name, clock, times[9])
			}
			ends = append(ends, clock)
		}
		if ends[0] != ends[1] || ends[1] != ends[2] {
			t.Errorf("%s: the clock depends on the pieces: %+v", name, ends)
		}
	}
}
