package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// An archive whose channels together exceed the budget is refused with the first channel, before memory for all
// channels is reserved. Constant values make the file a hundredth of its claimed size.
func TestChannelsBeyondTheBudget(t *testing.T) {
	const channels, samples = 256, 1 << 14
	const all = 4 * channels * samples
	dir := t.TempDir()
	set, rec := filepath.Join(dir, "set.parquet"), filepath.Join(dir, "rec.parquet")
	wide := make([]string, channels)
	for i := range wide {
		wide[i] = fmt.Sprintf("c%d", i)
	}
	d := &Dataset{Name: "wide", Channels: wide, Classes: []string{"a"}, Series: []Series{
		{ID: "1", Split: Train, Values: make([]float32, channels*samples)},
	}}
	if err := WriteDataset(set, d); err != nil {
		t.Fatal(err)
	}
	w, err := WriteRecording(rec, RecordingInfo{Name: "wide", Channels: d.Channels})
	if err != nil {
		t.Fatal(err)
	}
	w.limit = samples // one row group, like other tools
	c := RecordingChunk{Seq: make([]int64, samples), Time: make([]int64, samples), Values: d.Series[0].Values, End: make([]bool, samples), Label: make([]string, samples)}
	for i := range samples {
		c.Stream, c.Seq[i] = append(c.Stream, "s"), int64(i)
	}
	if err := errors.Join(w.Write(&c), w.Close()); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]struct {
		path string
		read func(in *parquetFile) error
	}{
		"dataset": {set, func(in *parquetFile) error {
			in.budget = 2 * samples // the first channel, not all
			_, err := decodeDataset(in)
			return err
		}},
		"recording": {rec, func(in *parquetFile) error {
			r, err := newRecordingReader(rec, in)
			if err != nil {
				return err
			}
			in.budget = 8 * samples
			g, err := r.openGroup(0)
			if err != nil {
				return err
			}
			g.columns.whole()
			return r.readChunk(g, &RecordingChunk{})
		}},
	} {
		if st, err := os.Stat(read.path); err != nil || st.Size() > all/16 {
			t.Errorf("%s: the file is no small one: %v, %v", name, st.Size(), err)
		}
		in, err := openParquet(read.path)
		if err != nil {
			t.Fatal(err)
		}
		got := allocated(func() { err = read.read(in) })
		if !errors.Is(err, datafile.ErrTooLarge) {
			t.Errorf("%s: %v, want it refused as too large", name, err)
		}
		// The other columns and the first channel take a third of this limit.
		if got > all/2 {
			t.Errorf("%s: %d bytes allocated before it was refused, all channels take %d", name, got, all)
		}
		t.Logf("%s: %d bytes allocated of %d claimed", name, got, all)
		if err := in.file.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Rows cost memory whatever their content, and a few bytes can claim many rows.
func TestTooManySeries(t *testing.T) {
	a := archiveReader{d: &Dataset{Series: make([]Series, 1)}}
	if _, err := a.describe(&rowGroup{rows: maxSeries, total: maxSeries}); !errors.Is(err, datafile.ErrTooLarge) {
		t.Errorf("%v, want %d series refused", err, maxSeries+1)
	}
}
