package paper

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// Published is the paper's result of a model on a data set.
type Published struct {
	Accuracy      float64 `json:"accuracy"`
	Deviation     float64 `json:"deviation"`
	Units         int     `json:"units"`
	SearchMinutes float64 `json:"search_minutes"`
	Minutes       float64 `json:"minutes"`
}

//go:embed paper.json
var paperJSON []byte

// reference is paper.json: the paper's figures, with their source.
type reference struct {
	Source   string                          `json:"source"`
	Datasets map[string]map[string]Published `json:"datasets"`
}

var published = sync.OnceValue(func() (r reference) {
	if err := json.Unmarshal(paperJSON, &r); err != nil {
		panic("bench: paper.json: " + err.Error()) // the file is part of the program
	}
	return r
})

// Paper returns the paper's result of a model on a data set; for the bank, the result of
// the paper's Euler State Network.
func Paper(dataset, model string) (Published, bool) {
	if model == BankModel {
		model = "eusn"
	}
	p, ok := published().Datasets[dataset][model]
	return p, ok
}

// Classifiers are the entries of compare.Classifiers shown next to the bank: those with
// figures for the paper's data sets.
var Classifiers = []string{"1NN-DTW", "ROCKET", "HIVE-COTE 2"}

// rebuilt are training parts with a harder split than the archive's, for which the
// paper's figure is no yardstick. Keys are offline.Dataset.Fingerprint.
var rebuilt = map[string]string{
	"bab4217a3fa4561bfe63380ea7185023f9ed477278657b095db905396dcc9e4f": "MotionSenseHAR rebuilt from the recordings: another split than the archive's",
}

// Verdict compares a cell with the paper.
type Verdict struct {
	Paper      Published `json:"paper"`
	Difference float64   `json:"difference"`             // of accuracy, ours minus the paper's
	Deviations float64   `json:"deviations"`             // the difference in the paper's standard deviations; 0 if the deviation is 0
	Fixed      float64   `json:"fixed_tolerance"`        // from the paper's figures only: twice the standard deviation, or .02
	Tolerance  float64   `json:"tolerance"`              // twice the larger of both standard deviations, or .02
	Within     bool      `json:"within"`                 // Tolerance
	ByOurs     bool      `json:"by_our_deviation_alone"` // within Tolerance, but not within Fixed, because of the spread of our draws
	Gated      bool      `json:"gated"`                  // false if the paper's figure is no yardstick
	Note       string    `json:"note,omitempty"`         // the reason
}

// minTolerance is the best precision of a table with three digits and ten draws.
const minTolerance = 0.02

// Judge compares a cell with the paper: within twice the larger of both standard
// deviations, or .02. Our own deviation can widen the tolerance, so results that pass
// only by it, and not by twice the paper's or .02, are marked. A protocol that aims to
// improve on the paper may be higher by any amount. The second result is false if the
// paper has no figure.
func (st *Results) Judge(c Cell) (Verdict, bool) {
	p, ok := Paper(c.Dataset, c.Model)
	if !ok || c.Missing != "" {
		return Verdict{}, false
	}
	v := Verdict{Paper: p, Difference: c.Accuracy - p.Accuracy, Note: rebuilt[st.data[c.Dataset].Train]}
	if p.Deviation > 0 {
		v.Deviations = v.Difference / p.Deviation
	}
	holds := func(tolerance float64) bool {
		return v.Difference >= -tolerance && (v.Difference <= tolerance || st.settings.Protocol != PaperExact)
	}
	v.Fixed = max(2*p.Deviation, minTolerance)
	v.Tolerance = max(2*c.Deviation, v.Fixed)
	v.Within = holds(v.Tolerance)
	v.ByOurs = v.Within && !holds(v.Fixed)
	if isTrained(c.Model) && (c.Configurations < MaxConfigurations || c.Training.Epochs < PaperEpochs) {
		v.Note = fmt.Sprintf("%d configurations of up to %d epochs", c.Configurations, c.Training.Epochs)
	}
	v.Gated = v.Note == ""
	return v, true
}
