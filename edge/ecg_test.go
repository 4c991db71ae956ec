package edge

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
)

// TestECG5000 exports a network of the paper and the small banks, trained on real data,
// and compares the compiled headers with the Go engine on the test part: the first 100
// series, or all (EUSN_ACCURACY=edge: a minute). The banks were selected by leave-one-out
// on the training part: tiny and small tie there.
func TestECG5000(t *testing.T) {
	from := filepath.Join("..", "..", "shared", "datasets")
	if _, err := os.Stat(filepath.Join(from, "PROVENANCE.md")); err != nil {
		parts.Absent(t, "datasets", "nothing is tested on real data: %v", err)
	}
	d, err := imports.Import(t.Context(), imports.Options{Dir: filepath.Join(from, "ECG5000"), Name: "ECG5000"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(s archive.Split) (series [][]float32, labels []string) {
		for _, i := range d.Part(s) {
			series, labels = append(series, d.Series[i].Values), append(labels, d.Classes[d.Series[i].Label])
		}
		return series, labels
	}
	train, labels := of(archive.Train)
	test, truth := of(archive.Test)
	most := 100
	if parts.Accuracy("edge") {
		most = len(test)
	}
	bank := func(name string) reservoir.Spec {
		s, err := reservoir.Bank(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name        string
		spec        reservoir.Spec
		memory, all int // bytes: of a stream; of a stream and the constants
		accuracy    float64
	}{
		{"one network of 50 units", reservoir.Paper(1, reservoir.PaperOptions{Units: 50, Input: .1, Bias: .1, Seed: 1}), 16 << 10, 32 << 10, .8},
		{"bank tiny", bank("tiny"), 16 << 10, 128 << 10, .944},
		{"bank small", bank("small"), 32 << 10, 256 << 10, .944},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := classify.Train(t.Context(), c.spec, train, labels)
			if err != nil {
				t.Fatal(err)
			}
			h := m.Readouts[0]
			size, err := C(&bytes.Buffer{}, m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			features, err := classify.Features(t.Context(), m.Network, test)
			if err != nil {
				t.Fatal(err)
			}
			right, scores, width := 0, make([]float32, h.Columns()), m.Network.Spec.FeatureCount()
			for i, want := range truth {
				h.Scores(scores, features[i*width:(i+1)*width])
				if h.Classes[h.Class(scores)] == want {
					right++
				}
			}
			accuracy := float64(right) / float64(len(truth))
			t.Logf("%d of %d right, %.4f; %d bytes of memory for a stream, %d of constants; %s", right, len(truth), accuracy, size.State, size.Constants, m.Training.Alpha)
			if accuracy < c.accuracy || size.State > c.memory || size.State+size.Constants > c.all {
				t.Errorf("want an accuracy of %v within %d and %d bytes", c.accuracy, c.memory, c.all)
			}
			on := machines["gcc -O2"]
			compareOutput(t, on, build(t, on, m, test[:most], 70, "-DHOSTED"), expectedLines(t, m, test[:most], 70))
		})
	}
}
