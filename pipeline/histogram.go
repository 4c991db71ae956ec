package pipeline

import (
	"sync/atomic"
	"time"
)

// Upper bounds of the histograms' buckets: a sample more, a decade of time
// in three, and what a commit takes from an in-process server to a cluster
// that chooses a leader. Times are in ns.
var (
	rowBounds    = []int64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536}
	stepBounds   = times("10us", "30us", "100us", "300us", "1ms", "3ms", "10ms", "30ms", "100ms", "300ms", "1s", "3s", "10s")
	commitBounds = times("300us", "1ms", "2ms", "5ms", "10ms", "20ms", "50ms", "100ms", "200ms", "500ms", "1s", "2s", "5s", "10s")
)

func times(text ...string) []int64 {
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

// mostBuckets is room for any of the bounds above and what lies beyond.
const mostBuckets = 16

// histogram counts values by size. Adding one takes no lock and no memory.
type histogram struct {
	counts [mostBuckets]atomic.Uint64 // of values in each bucket
	sum    atomic.Int64
}

func (h *histogram) add(bounds []int64, v int64) {
	i := 0
	for i < len(bounds) && v > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

// Histogram is how often values of which size occurred.
type Histogram struct {
	Bounds []float64 // upper bounds of the buckets, ascending, each in its bucket
	Counts []uint64  // values in each, and in a last one beyond all bounds
	Sum    float64   // of all values
}

// read takes a histogram out in another unit, of which one has so many of ours.
func (h *histogram) read(bounds []int64, unit float64) Histogram {
	out := Histogram{Bounds: make([]float64, len(bounds)), Counts: make([]uint64, len(bounds)+1), Sum: float64(h.sum.Load()) / unit}
	for i, b := range bounds {
		out.Bounds[i] = float64(b) / unit
	}
	for i := range out.Counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}
