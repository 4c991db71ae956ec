package machine

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// A plant's recording has streams without marks, of intervals with changing labels, in
// order of time.
func TestSimulatePlant(t *testing.T) {
	for _, machines := range []int{1, 2, 3, 4, 7} {
		path := filepath.Join(t.TempDir(), "plant.parquet")
		o := Options{Train: 28, Test: 4, Samples: 200, Seed: 3}
		if err := SimulatePlant(t.Context(), path, archive.Train, machines, o, nil); err != nil {
			t.Fatal(err)
		}
		var all archive.RecordingChunk
		rec, err := archive.RecordingFiles{Paths: []string{path}}.Open("", "")
		if err == nil {
			err = rec.Each(t.Context(), func(c *archive.RecordingChunk) error {
				all.Stream, all.Seq, all.Time = append(all.Stream, c.Stream...), append(all.Seq, c.Seq...), append(all.Time, c.Time...)
				all.End, all.Label = append(all.End, c.End...), append(all.Label, c.Label...)
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		type history struct {
			seq, time int64
			label     string
			changes   int
		}
		streams := map[string]*history{}
		for i, id := range all.Stream {
			s := streams[id]
			if s == nil {
				s = &history{}
				streams[id] = s
			}
			if all.Seq[i] != s.seq+1 || all.Time[i] <= s.time || all.End[i] || all.Label[i] == "" {
				t.Fatalf("sample %d of %s: seq %d at %d after %d at %d, end %v, label %q", i, id, all.Seq[i], all.Time[i], s.seq, s.time, all.End[i], all.Label[i])
			}
			if s.seq > 0 && all.Label[i] != s.label {
				s.changes++
			}
			s.seq, s.time, s.label = all.Seq[i], all.Time[i], all.Label[i]
		}
		if len(streams) != machines || all.Rows() < 28*100 || all.Rows() > 28*300 {
			t.Errorf("%d streams of %d samples, want %d of 2800 to 8400", len(streams), all.Rows(), machines)
		}
		for id, s := range streams {
			if want := 28/machines - 1; s.changes < want {
				t.Errorf("%d machines: %s changes its condition %d times, want %d", machines, id, s.changes, want)
			}
		}
	}
	if err := SimulatePlant(context.Background(), filepath.Join(t.TempDir(), "p"), archive.Test, 5, Options{Train: 4, Test: 4}, nil); err == nil {
		t.Error("more machines than intervals: no error")
	}
}
