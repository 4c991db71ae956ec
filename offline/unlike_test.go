package offline

import (
	"context"
	"os"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/internal/monitor"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// TestHealthyIsRarelyUnlike compares the margins of package monitor with series outside the training: the series of
// the test parts, which are as healthy as the training parts. docs/faults.md has the shares of all data sets;
// EUSN_ACCURACY=all computes the shares.
func TestHealthyIsRarelyUnlike(t *testing.T) {
	machine, err := machine.Simulate(t.Context(), machine.Options{Test: 2000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sets := []*archive.Dataset{machine}
	dir, list := requireDatasets(t), []string{"ECG5000", "PenDigits", "RacketSports"}
	if os.Getenv("EUSN_ACCURACY") == "all" {
		list = nil
		for _, s := range append(append(append([]realSet{}, paperSets...), extraSets...), largeSets...) {
			if s.channels > 0 && s.test > 0 {
				list = append(list, s.name)
			}
		}
	}
	for _, name := range list {
		d, err := imports.Import(context.Background(), imports.Options{Dir: dir, Name: name}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, d)
	}
	var all, out, still int
	for _, d := range sets {
		n, outside, flat := unlikeTraining(t, d)
		t.Logf("%-26s %5d series, %d out of range, %d flat", d.Name, n, outside, flat)
		// One in a hundred; of a small part, one.
		if most := max(1, n/100); outside > most || flat > most && d.Name != "Blink" {
			t.Errorf("%s: %d of %d healthy series are out of range, %d flat, want at most %d", d.Name, outside, n, flat, most)
		}
		all, out, still = all+n, out+outside, still+flat
	}
	t.Logf("%d series, %d out of range, %d flat", all, out, still)
}

// unlikeTraining counts the test series of d that are flagged after a training on its training series.
func unlikeTraining(t *testing.T, d *archive.Dataset) (n, outside, flat int) {
	in := newInputs(len(d.Channels))
	if err := (&seriesSource{d: d, series: d.Part(archive.Train)}).read(t.Context(), func(p *chunk) error {
		in.add(p)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	limits := monitor.NewLimits(len(d.Channels), in.statistics.Ranges())
	var f monitor.Findings
	for _, i := range d.Part(archive.Test) {
		limits.Watch(make([]monitor.Channel, len(d.Channels)), d.Series[i].Values, &f)
		o, fl := f.In(0, d.Len(i), 0)
		if n++; o {
			outside++
		}
		if fl {
			flat++
		}
	}
	return n, outside, flat
}
