package paper

import (
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// findPattern returns the index of a pattern in a series; -1 if it is absent.
func findPattern(values, pattern []float32, channels int) int {
	for at := 0; at+len(pattern) <= len(values); at += channels {
		if slices.Equal(values[at:at+len(pattern)], pattern) {
			return at / channels
		}
	}
	return -1
}

func TestSyntheticMemory(t *testing.T) {
	short, err := SyntheticMemory(30, 5)
	if err != nil {
		t.Fatal(err)
	}
	long, err := SyntheticMemory(200, 5)
	if err != nil {
		t.Fatal(err)
	}
	if short.Name != "Synthetic T=30" || len(short.Part(archive.Train)) != 500 || len(short.Part(archive.Test)) != 500 {
		t.Errorf("%s: %d and %d series", short.Name, len(short.Part(archive.Train)), len(short.Part(archive.Test)))
	}
	// The patterns: the common part of all series of a class, at any place.
	var patterns [2][]float32
	starts := map[int]int{}
	for label := range patterns {
		a, b := short.Series[label].Values, long.Series[label].Values
		for at := 0; at+10 <= 30; at++ {
			if findPattern(b, a[at:at+10], 1) >= 0 {
				patterns[label] = a[at : at+10]
			}
		}
		if patterns[label] == nil {
			t.Fatalf("class %d: no pattern common to both lengths", label)
		}
	}
	for _, d := range []*archive.Dataset{short, long} {
		for i, s := range d.Series {
			at := findPattern(s.Values, patterns[s.Label], 1)
			if at < 0 || at > 20 || s.Label != i%2 {
				t.Fatalf("%s, series %d: pattern at %d, label %d", d.Name, i, at, s.Label)
			}
			starts[at]++
		}
	}
	if len(starts) != 21 {
		t.Errorf("patterns start at %d different places, want 0 to 20", len(starts))
	}
}

func TestMemoryOfADataset(t *testing.T) {
	d := tones(6, 3)
	d.Series[4].Label = -1
	m, err := Memory(d, 80, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Series) != 8 || m.Name != "tones T=80" {
		t.Fatalf("%s has %d series, want the 8 labeled ones", m.Name, len(m.Series))
	}
	for k, s := range m.Series {
		i := k
		if k >= 4 {
			i++
		}
		if at := findPattern(s.Values, d.Series[i].Values, 2); at < 0 || at > 20 || len(s.Values) != 160 || s.Label != d.Series[i].Label {
			t.Errorf("series %d: pattern at %d, %d values, label %d", k, at, len(s.Values), s.Label)
		}
	}
	again, err := Memory(d, 80, 1)
	if err != nil || again.Fingerprint(archive.Train) != m.Fingerprint(archive.Train) {
		t.Errorf("the same seed gives other noise: %v", err)
	}
	if _, err := Memory(d, 30, 1); err == nil || !strings.Contains(err.Error(), "length 30, want") {
		t.Errorf("a length without room for the pattern: %v", err)
	}
}

// The result of the paper's Fig. 4, on a small scale: a Euler State Network remembers a
// pattern through 100 samples of noise; a leaky network forgets it.
func TestMemoryShowsWhoForgets(t *testing.T) {
	d, err := SyntheticMemory(130, 1)
	if err != nil {
		t.Fatal(err)
	}
	cells, _ := runBench(t, PaperExact, Options{Plan: smallPlan(PaperExact, 20, 2, "eusn", "esn")}, d)
	t.Logf("EuSN %.3f, ESN %.3f", cells[0].Accuracy, cells[1].Accuracy)
	if cells[0].Accuracy < 0.8 || cells[1].Accuracy > 0.65 {
		t.Errorf("EuSN %.3f, ESN %.3f, want at least .8 and at most .65", cells[0].Accuracy, cells[1].Accuracy)
	}
}

func TestMemoryTask(t *testing.T) {
	d, err := Memory(tones(3, 3), 60, 1)
	if err != nil {
		t.Fatal(err)
	}
	if task, length, ok := MemoryTask(d.Name); task != "tones" || length != 60 || !ok {
		t.Errorf("%q: %q, %d, %v", d.Name, task, length, ok)
	}
	for _, other := range []string{"tones", "tones T=", "tones T=x", " T=3", "T=3", "tones T=-3", ""} {
		if _, _, ok := MemoryTask(other); ok {
			t.Errorf("%q is no task", other)
		}
	}
}
