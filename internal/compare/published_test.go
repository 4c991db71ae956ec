package compare

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// Means as computed by another program from the sources: a wrong or misplaced figure
// changes a mean.
func TestPublishedMeans(t *testing.T) {
	for classifier, want := range map[string]float64{"1NN-DTW": .7976, "ROCKET": .8861, "MultiROCKET-Hydra": .8850, "QUANT": .8728, "HIVE-COTE 2": .8935} {
		sum := 0.0
		for _, d := range Sets() {
			a, ok := Published(classifier).Accuracy(d)
			if !ok {
				t.Fatalf("no figure of %s on %s", classifier, d)
			}
			sum += a / float64(len(Sets()))
		}
		if math.Abs(sum-want) > .00006 { // five digits in the file, four here
			t.Errorf("%s: mean %.5f, want %.4f", classifier, sum, want)
		}
	}
	for classifier, want := range map[string]float64{"1NN-DTW": .8152, "ROCKET": .9157, "MiniROCKET": .9125, "MultiROCKET": .9159, "MultiROCKET-Hydra": .9162, "QUANT": .9066, "HIVE-COTE 2": .9194} {
		sum, n := 0.0, 0.0
		for _, d := range Sets() {
			if _, ok := Published("MiniROCKET").Accuracy(d); !ok {
				continue // a set of several channels
			}
			a, ok := Published(classifier).Accuracy(d)
			if !ok {
				t.Fatalf("no figure of %s on %s", classifier, d)
			}
			sum, n = sum+a, n+1
		}
		if n != 31 || math.Abs(sum/n-want) > .00006 {
			t.Errorf("%s: mean %.5f of %g sets, want %.4f of 31", classifier, sum/n, n, want)
		}
	}
}

// Each figure is an accuracy, of a classifier in tables, once, with its source.
func TestPublishedFile(t *testing.T) {
	seen := map[[2]string]bool{}
	for _, b := range published().Blocks {
		if !strings.HasPrefix(b.Address, "https://") || len(b.Commit) != 40 || len(b.Date) != 10 || b.Source.Source == "" || b.Resample == "" {
			t.Errorf("source %+v is not complete", b.Source)
		}
		for dataset, of := range b.Figures {
			for classifier, a := range of {
				if k := [2]string{dataset, classifier}; seen[k] || !slices.Contains(Classifiers, classifier) || !(a > 0 && a <= 1) {
					t.Errorf("%s, %s: %g, twice %t", dataset, classifier, a, seen[k])
				} else {
					seen[k] = true
				}
			}
		}
	}
	if sets := Sets(); len(sets) != 41 || len(slices.Compact(sets)) != 41 || len(seen) == 0 {
		t.Errorf("%d sets, want 41, each once", len(sets))
	}
	for _, d := range Quick {
		if !slices.Contains(Sets(), d) {
			t.Errorf("%s is no set of the 41", d)
		}
	}
	if len(Sources()) != len(published().Blocks) {
		t.Error("not every block has its source listed")
	}
}
