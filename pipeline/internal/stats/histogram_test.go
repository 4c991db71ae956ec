package stats

import (
	"slices"
	"testing"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, v := range []int64{0, 1, 2, 4, 5, 65536, 65537, 1 << 40} {
		h.Add(RowBounds, v)
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
