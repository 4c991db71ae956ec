package bridge

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/exact"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Sequences are sequences with known features.
type Sequences struct {
	Name        string // the name of their source
	Fingerprint string // the identity of their data
	Streams     int
	Classes     []string // ascending, as in a recording
	Sequences   []Sequence
	Features    func(i int, row []float32) error // of a sequence

	// Sums are the sums of all sequences, by their classes, if the features of most are gone. Then only the features
	// of Kept are needed: sequences, ascending, that choose the regularization. nil: all features are present.
	Sums *exact.Sums
	Kept []int

	// Adaptive is the rate at which labels move the sets' thresholds, in the order of the labels; 0: no moves (package
	// adaptive).
	Adaptive float64
}

// Sequence is a sequence with its label. Sequences of one group have one origin: one labeled part of a
// stream, or each by itself under the policies marked and gap. Sequences of a group are neighbors in the list.
type Sequence struct {
	Class, Group int
	Samples      int64 // as they came in
	Rows         int   // after the front end

	// Labeled numbers the label of the class, in the order of the labels' arrival; sequences of one label are in the
	// order of the list. It is for an adaptive coverage.
	Labeled uint64
}

// Without returns the other sequences, with their classes. some is ascending.
func (k Sequences) Without(some []int) Sequences {
	rest := k
	rest.Sequences = nil
	var from []int
	for i, s := range k.Sequences {
		if _, out := slices.BinarySearch(some, i); !out {
			rest.Sequences, from = append(rest.Sequences, s), append(from, i)
		}
	}
	rest.Classes = nil
	number := make([]int, len(k.Classes))
	for c, name := range k.Classes {
		if slices.ContainsFunc(rest.Sequences, func(s Sequence) bool { return s.Class == c }) {
			number[c], rest.Classes = len(rest.Classes), append(rest.Classes, name)
		}
	}
	for i := range rest.Sequences {
		rest.Sequences[i].Class = number[rest.Sequences[i].Class]
	}
	rest.Features = func(i int, row []float32) error { return k.Features(from[i], row) }
	return rest
}

// Test counts the sequences among some whose class is the model's answer for the whole sequence.
func (k Sequences) Test(m *reservoir.Model, some []int) (correct int, err error) {
	r := m.Readouts[0]
	row, scores := make([]float32, r.Features()), make([]float32, r.Columns())
	for _, i := range some {
		if err := k.Features(i, row); err != nil {
			return 0, err
		}
		r.AnswerScores(scores, row, nil) // a readout of classes
		if r.Classes[r.Class(scores)] == k.Classes[k.Sequences[i].Class] {
			correct++
		}
	}
	return correct, nil
}

// CheckSums reports why a model's readout cannot be trained on sums, if so: no features may be clipped by limits from all
// sequences.
func CheckSums(m *reservoir.Model) error {
	if _, _, clip := m.Network.Spec.SoftScaling(1); clip > 0 {
		return fmt.Errorf("offline: a network of kind %s: %w", m.Network.Spec.Kind, fit.ErrClipped)
	}
	return nil
}

// CheckNetwork reports why a model's readout cannot be trained on features of the network, if so.
func CheckNetwork(m *reservoir.Model) error {
	for _, r := range m.Readouts {
		if r.Segments != nil {
			return fmt.Errorf("offline: readout %q reads segments of the sequence: labels of a running job train only readouts of the network", r.Name)
		}
	}
	return nil
}

// MostKept returns how many sequences a Learner keeps at most to choose the regularization.
func MostKept(m *reservoir.Model) int { return fit.MostKept(m.Network.Spec.FeatureCount()) }
