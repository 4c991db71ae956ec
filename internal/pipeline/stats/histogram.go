package stats

import (
	"sync/atomic"
	"time"
)

// Upper bounds of the histograms' buckets, from below a sample's time, three per
// decade; for commits, from an in-process server to a cluster that elects a leader.
// Times are in ns.
var (
	RowBounds    = []int64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536}
	StepBounds   = parseTimes("10us", "30us", "100us", "300us", "1ms", "3ms", "10ms", "30ms", "100ms", "300ms", "1s", "3s", "10s")
	CommitBounds = parseTimes("300us", "1ms", "2ms", "5ms", "10ms", "20ms", "50ms", "100ms", "200ms", "500ms", "1s", "2s", "5s", "10s")
)

// Bounds of States: shares of units, and sizes of states, a decade in
// two, both in units of 1/StateUnit.
var (
	ShareBounds = []int64{100, 200, 500, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000}
	SizeBounds  = []int64{100, 300, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8}
)

// StateUnit is the divisor of ShareBounds and SizeBounds.
const StateUnit = 10_000

// States describes the sampled states. The zero value is ready.
type States struct {
	Saturated Histogram // share of units, ShareBounds
	Size      Histogram // SizeBounds
}

// mostSize replaces the size of a larger state, or of a state that is not a number.
const mostSize = 1e9

// AddState counts a state.
func (s *States) AddState(saturated, size float64) {
	if !(size <= mostSize) {
		size = mostSize
	}
	s.Saturated.AddValue(ShareBounds, int64(saturated*StateUnit+.5))
	s.Size.AddValue(SizeBounds, int64(size*StateUnit+.5))
}

func parseTimes(text ...string) []int64 {
	ns := make([]int64, len(text))
	for i, s := range text {
		d, err := time.ParseDuration(s)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		ns[i] = int64(d)
	}
	return ns
}

// MostBuckets is room for any of the bounds above and the last bucket.
const MostBuckets = 16

// Histogram counts values by size. AddValue takes no lock and no memory.
type Histogram struct {
	counts [MostBuckets]atomic.Uint64 // of values in each bucket
	sum    atomic.Int64
}

func (h *Histogram) AddValue(bounds []int64, v int64) {
	i := 0
	for i < len(bounds) && v > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

// Buckets is a histogram at one time.
type Buckets struct {
	Bounds []float64 // upper bounds of the buckets, ascending, inclusive
	Counts []uint64  // values in each bucket, and in a last bucket above all bounds
	Sum    float64   // of all values
}

// Read returns a histogram in another unit, equal to `unit` of the internal units.
func (h *Histogram) Read(bounds []int64, unit float64) Buckets {
	out := Buckets{Bounds: make([]float64, len(bounds)), Counts: make([]uint64, len(bounds)+1), Sum: float64(h.sum.Load()) / unit}
	for i, b := range bounds {
		out.Bounds[i] = float64(b) / unit
	}
	for i := range out.Counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}
