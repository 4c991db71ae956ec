package monitor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

var nan = float32(math.NaN())

// ranges: channel 0 is typical, 1 is often constant, 2 is unknown.
var ranges = []reservoir.InputRange{
	{Values: 100, Min: -1, Max: 3, LongestRun: 1},
	{Values: 100, Min: 0, Max: 1, LongestRun: 20},
	{},
}

// signsOf returns the signs of a whole sequence x, by the definition.
func signsOf(x []float32) (outside, flat bool) {
	for c, r := range ranges[:2] {
		run := 0
		for i := c; i < len(x); i += len(ranges) {
			m := (r.Max - r.Min) / 2
			if x[i] < r.Min-m || x[i] > r.Max+m {
				outside = true
			}
			switch {
			case x[i] != x[i]:
				run = 0
			case run > 0 && x[i] == x[i-len(ranges)]:
				run++
			default:
				run = 1
			}
			if run > max(8, 2*r.LongestRun) {
				flat = true
			}
		}
	}
	return outside, flat
}

// TestStreamsAreTheirSequences: successive sequences of a stream, in messages of any size, have the
// same signs as each sequence alone.
func TestStreamsAreTheirSequences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	l := NewLimits(3, ranges)
	seen := [2][2]int{}
	for range 400 {
		var x []float32
		var ends []int // end row of each sequence
		for range 1 + rng.IntN(6) {
			for range 1 + rng.IntN(60) {
				for range 3 {
					v := float32(rng.IntN(2))
					switch k := len(x) - 3; {
					case rng.IntN(40) == 0:
						v = nan
					case k >= 0 && rng.IntN(30) > 0: // mostly the previous value
						v = x[k]
					case rng.IntN(40) == 0:
						v = []float32{-3.01, -2.99, 4.99, 5.01}[rng.IntN(4)]
					}
					x = append(x, v)
				}
			}
			ends = append(ends, len(x)/3)
		}
		channels, at := make([]Channel, 3), 0
		got := make([][2]bool, len(ends))
		var f Findings
		for at < len(x)/3 {
			n := min(1+rng.IntN(25), len(x)/3-at)
			l.Watch(channels, x[3*at:3*(at+n)], &f)
			begin := 0
			for k, end := range ends {
				from, to := max(begin, at), min(end, at+n)
				if from < to {
					o, fl := f.In(from-at, to-at, int64(from-begin))
					got[k][0], got[k][1] = got[k][0] || o, got[k][1] || fl
				}
				begin = end
			}
			at += n
		}
		begin := 0
		for k, end := range ends {
			o, fl := signsOf(x[3*begin : 3*end])
			if got[k] != [2]bool{o, fl} {
				t.Fatalf("sequence %d, rows %d to %d: out of range %v, flat %v, want %v and %v\n%v", k, begin, end, got[k][0], got[k][1], o, fl, x[3*begin:3*end])
			}
			for i, b := range got[k] {
				if b {
					seen[i][1]++
				} else {
					seen[i][0]++
				}
			}
			begin = end
		}
	}
	for _, n := range seen {
		if n[0] < 50 || n[1] < 50 {
			t.Errorf("signs %v: one side is hardly tested", seen)
		}
	}
}

// TestLimits: the limits equal the documented limits exactly.
func TestLimits(t *testing.T) {
	l := NewLimits(3, ranges)
	constant := func(c int, v float32, n int) []float32 {
		x := make([]float32, 3*n)
		for i := range x {
			x[i] = float32(i%7) / 8 // neighbors in a channel differ
			if i%3 == c {
				x[i] = v
			}
		}
		return x
	}
	for _, c := range []struct {
		name          string
		x             []float32
		outside, flat bool
	}{
		{"at the upper limit", constant(0, 5, 8), false, false},
		{"above it", constant(0, math.Nextafter32(5, 9), 1), true, false},
		{"at the lower limit", constant(0, -3, 8), false, false},
		{"below it", constant(0, math.Nextafter32(-3, -9), 1), true, false},
		{"a run of 8", constant(0, 1, 8), false, false},
		{"a run of 9", constant(0, 1, 9), false, true},
		{"a run of 40 where there were 20", constant(1, 1, 40), false, false},
		{"a run of 41", constant(1, 1, 41), false, true},
		{"zeros from the first sample", constant(0, 0, 9), false, true},
		{"missing", constant(0, nan, 100), false, false},
		{"no range", constant(2, 1e30, 100), false, false},
	} {
		var f Findings
		l.Watch(make([]Channel, 3), c.x, &f)
		if o, fl := f.In(0, len(c.x)/3, 0); o != c.outside || fl != c.flat {
			t.Errorf("%s: out of range %v, flat %v, want %v and %v", c.name, o, fl, c.outside, c.flat)
		}
	}
	// A run of the maximum countable length stays flat.
	channels, f := make([]Channel, 3), Findings{}
	channels[0] = Channel{Last: 1, Run: math.MaxUint32}
	l.Watch(channels, []float32{1, 0, 0}, &f)
	if _, flat := f.In(0, 1, 100); !flat || channels[0].Run != math.MaxUint32 {
		t.Errorf("after 2^32 samples of one value: flat %v, run %d", flat, channels[0].Run)
	}
}

func TestWatchAllocatesNothing(t *testing.T) {
	l, channels, f := NewLimits(3, ranges), make([]Channel, 3), Findings{}
	x := make([]float32, 3*100) // zeros: flat
	l.Watch(channels, x, &f)
	if n := testing.AllocsPerRun(10, func() {
		l.Watch(channels, x, &f)
		f.In(0, 100, 0)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// BenchmarkWatch: 80 varying samples of 6 channels, like most messages, around 0 and elsewhere.
func BenchmarkWatch(b *testing.B) {
	for _, mean := range []float32{0, 40} {
		b.Run(fmt.Sprintf("mean=%v", mean), func(b *testing.B) {
			const rows, width = 80, 6
			r := make([]reservoir.InputRange, width)
			for c := range r {
				r[c] = reservoir.InputRange{Values: 1, Min: mean - 1, Max: mean + 1, LongestRun: 1}
			}
			l, channels, f := NewLimits(width, r), make([]Channel, width), Findings{}
			x := make([]float32, rows*width)
			for i := range x {
				x[i] = mean + float32(math.Sin(float64(i)))
			}
			for b.Loop() {
				l.Watch(channels, x, &f)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows/width, "ns/value")
		})
	}
}
