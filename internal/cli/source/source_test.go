package source

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// With --streams 0 each series is a separate stream; by silence, only a stream's last series
// ends by a mark, and times separate the others.
func TestSeriesSourceDeals(t *testing.T) {
	d := &archive.Dataset{Channels: []string{"x"}, Classes: []string{"a"}}
	for range 5 {
		d.Series = append(d.Series, archive.Series{Split: archive.Test, Values: make([]float32, 3)})
	}
	streams := map[string]bool{}
	for src := NewSeries(d, archive.Test, 0); ; {
		it, err := src.Next()
		if err != nil {
			break
		}
		streams[it.Stream] = true
		if !it.End || it.Times != nil {
			t.Errorf("a series without an end: %+v", it)
		}
	}
	if len(streams) != 5 {
		t.Errorf("%d streams, want 5", len(streams))
	}
	src := NewSeries(d, archive.Test, 2)
	src.BySilence(time.Millisecond, time.Second)
	last := map[string]int64{}
	for k := range 5 {
		it, err := src.Next()
		if err != nil || len(it.Times) != 3 || it.Times[2]-it.Times[0] != int64(2*time.Millisecond) {
			t.Fatalf("series %d: %+v, %v", k, it, err)
		}
		if before, ok := last[it.Stream]; ok && it.Times[0]-before != int64(time.Second+time.Millisecond) {
			t.Errorf("series %d begins %v after the one before", k, time.Duration(it.Times[0]-before))
		}
		last[it.Stream] = it.Times[2]
		if it.End != (k >= 3) {
			t.Errorf("series %d: end %v", k, it.End)
		}
	}
}
