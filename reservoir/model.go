package reservoir

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
	"github.com/eusn-stream/eusn-stream/readout"
)

// Network holds all data that determine states: the recipe, the input
// transform's constants and the drawn weights. A Network is immutable once an
// engine uses it.
type Network struct {
	Spec    Spec
	Norm    Norm
	Members []Member
}

// Member is one block of the bank. N is Spec.Units.
type Member struct {
	Inputs     []int32   // indices of its transformed inputs, ascending; of a tap member the input of each tap, in any order
	Lags       []int32   // of a tap member the lag of each tap, samples; of other members nil
	Keep, Gain float32   // h' = keep*h + gain*tanh(...); of kind mixed both are 1
	Recurrent  []float32 // N x N row-major; for resn the N values M[i][(i+N-1) mod N]; of a tap member the N values M[i][i]
	Input      []float32 // N x len(Inputs) row-major
	Bias       []float32 // N
}

// Model is the unit of exchange: a network, its trained readouts, and the rules
// to cut and read streams. Save and Load write and read its file.
type Model struct {
	Network  *Network
	Readouts []*readout.Linear
	Policy   Policy
	Channels []string // channel names, Spec.Channels of them, in order
	Front    *Front   // transforms samples before the network; nil: none
	Training Training
}

// Training describes the origin of the readouts.
type Training struct {
	Dataset     string `json:"dataset,omitzero"`
	Fingerprint string `json:"fingerprint,omitzero"` // sha256 of the training series
	Series      int    `json:"series,omitzero"`
	Samples     int64  `json:"samples,omitzero"`
	MinLength   int    `json:"min_length,omitzero"` // shortest training sequence; 0: not known
	MaxLength   int    `json:"max_length,omitzero"` // longest training sequence
	Alpha       string `json:"alpha,omitzero"`      // ridge regularization, and the method of its choice
	Tool        string `json:"tool,omitzero"`       // program and version

	Inputs []InputRange `json:"inputs,omitzero"` // of each channel; none: not known

	Rate            float64 `json:"rate,omitzero"`                // samples per second, Hz; 0: not known
	LongestInterval int64   `json:"longest_interval_ns,omitzero"` // between two samples, in all but 2 % of the training sequences, ns; 0: not known

	Choices []Choice `json:"choices,omitempty"` // settings that the training compared; nil: none
}

// Choice is a setting that a training tried on a part of its data.
type Choice struct {
	Settings  string  `json:"settings"`  // flags
	Error     float64 `json:"error"`     // of left-out sequences: 1 less the mean AUROC of the classes, or the root mean squared error
	Deviation float64 `json:"deviation"` // standard error of Error
	Sequences int     `json:"sequences"`
	Cost      float64 `json:"cost"` // network steps for each sample
	Chosen    bool    `json:"chosen,omitzero"`
}

// Validate reports all errors in the model.
func (m *Model) Validate() error {
	if m.Network == nil {
		return errors.New("reservoir: model: want a network, got none")
	}
	errs := []error{m.Network.Validate(), m.Policy.Validate()}
	if got, want := len(m.Channels), m.Network.Spec.Channels; got != want {
		errs = append(errs, fmt.Errorf("reservoir: model: want the names of %d channels, got %d", want, got))
	}
	if got, want := len(m.Training.Inputs), len(m.Channels); got > 0 && got != want {
		errs = append(errs, fmt.Errorf("reservoir: training: ranges of %d channels, the model has %d", got, want))
	}
	for i, r := range m.Training.Inputs {
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("reservoir: training: range of channel %d: %w", i, err))
		}
	}
	if t := m.Training; t.MinLength < 0 || t.MaxLength < 0 || t.MinLength > t.MaxLength {
		errs = append(errs, fmt.Errorf("reservoir: training: sequences of %d to %d samples", t.MinLength, t.MaxLength))
	}
	errs = append(errs, m.Training.checkRate())
	if m.Front != nil {
		errs = append(errs, m.Front.validate(m.Policy, len(m.Channels)))
	}
	for _, c := range m.Channels {
		errs = append(errs, named("channel name", c))
	}
	errs = append(errs, named("name of the data set", m.Training.Dataset))
	seen := map[string]bool{}
	for _, h := range m.Readouts {
		errs = append(errs, h.Validate())
		if got, want := h.Features(), m.Network.Spec.FeatureCount(); got != want {
			errs = append(errs, fmt.Errorf("reservoir: readout %q: want %d features as the network has, got %d", h.Name, want, got))
		}
		errs = append(errs, m.checkStatistics(h))
		if seen[h.Name] {
			errs = append(errs, fmt.Errorf("reservoir: readout %q: want names that differ, got this one twice", h.Name))
		}
		seen[h.Name] = true
	}
	return errors.Join(errs...)
}

// checkStatistics refuses random features, weights of segments and detectors of other statistics than those of the front end.
func (m *Model) checkStatistics(h *readout.Linear) error {
	got, divided := m.Front.StatisticsSize(len(m.Channels)), m.Front != nil && m.Front.Segments != nil
	for _, reader := range []struct {
		what     string
		want     int
		segments bool
	}{{"random features", h.Random.Statistics(), false}, {"weights of segments", h.Segments.Statistics(), true}, {"a detector", h.Novelty.Statistics(), false}} {
		switch {
		case reader.want == 0:
		case reader.segments != divided:
			return fmt.Errorf("reservoir: readout %q: %s, and a front end with segments: %v, want weights of segments only with segments, and other readers only with means", h.Name, reader.what, divided)
		case reader.want != got:
			return fmt.Errorf("reservoir: readout %q: %s of %d statistics, the front end computes %d", h.Name, reader.what, reader.want, got)
		}
	}
	return nil
}

// FirstMissing returns the replacements of missing values at the beginning of a
// sequence: the values that the input transform maps to 0, or the values of the
// front end.
func (m *Model) FirstMissing() []float32 {
	if m.Front != nil {
		return m.Front.Fill
	}
	return m.Network.Norm.Mean
}

// named holds a name against the rule for all names from outside.
func named(what, name string) error {
	if err := names.Check(what, name); err != nil {
		return fmt.Errorf("reservoir: model: %w", err)
	}
	return nil
}

func (t Training) checkRate() error {
	if t.Rate != 0 {
		if err := timeunit.CheckRate(t.Rate); err != nil {
			return fmt.Errorf("reservoir: training: %w", err)
		}
	}
	if t.LongestInterval < 0 || t.LongestInterval > 0 && t.Rate == 0 {
		return fmt.Errorf("reservoir: training: longest interval %d ns, sampling rate %g Hz: want 0 or more, and 0 without a rate", t.LongestInterval, t.Rate)
	}
	return nil
}
