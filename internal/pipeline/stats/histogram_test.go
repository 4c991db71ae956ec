package stats

import (
	"math"
	"slices"
	"testing"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, v := range []int64{0, 1, 2, 4, 5, 65536, 65537, 1 << 40} {
		h.AddValue(RowBounds, v)
	}
	got := h.Read(RowBounds, 2)
	if want := []uint64{2, 2, 1, 0, 0, 0, 0, 0, 1, 2}; !slices.Equal(got.Counts, want) {
		t.Errorf("counts %v, want %v", got.Counts, want)
	}
	if got.Sum != (12+65536+65537+1<<40)/2. || got.Bounds[1] != 2 {
		t.Errorf("sum %v, bounds %v", got.Sum, got.Bounds)
	}
	for _, bounds := range [][]int64{RowBounds, StepBounds, CommitBounds} {
		if len(bounds) >= MostBuckets || !slices.IsSorted(bounds) {
			t.Errorf("%v: want ascending, fewer than %d", bounds, MostBuckets)
		}
	}
}

// A state that is not a number, as of a network whose weights overflow, counts as the
// largest size, so that the mean stays a number.
func TestStatesNoNumber(t *testing.T) {
	var s States
	for _, size := range []float64{.5, math.NaN(), math.Inf(1), 1e300} {
		s.AddState(.25, size)
	}
	got := s.Size.Read(SizeBounds, StateUnit)
	if beyond := got.Counts[len(SizeBounds)]; beyond != 3 || got.Sum != 3*mostSize+.5 {
		t.Errorf("%d beyond all bounds, sum %v; want 3 and %v", beyond, got.Sum, 3*mostSize+.5)
	}
}
