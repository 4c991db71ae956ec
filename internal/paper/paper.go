package paper

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// Published is what the paper reports of one model on one data set.
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
		panic("bench: paper.json: " + err.Error()) // it is part of the program
	}
	return r
})

// Paper gives the paper's result of a model on a data set; of the bank, that
// of its Euler State Network.
func Paper(dataset, model string) (Published, bool) {
	if model == BankModel {
		model = "eusn"
	}
	p, ok := published().Datasets[dataset][model]
	return p, ok
}

// Classifiers are those of compare.Classifiers that are shown beside the bank: the
// ones with figures for the paper's data sets.
var Classifiers = []string{"1NN-DTW", "ROCKET", "HIVE-COTE 2"}

// rebuilt are training parts whose split is harder than the archive's, so that
// the paper's figure is no yardstick. Keys are offline.Dataset.Fingerprint.
var rebuilt = map[string]string{
	"bab4217a3fa4561bfe63380ea7185023f9ed477278657b095db905396dcc9e4f": "MotionSenseHAR rebuilt from the recordings: another split than the archive's",
}

// Verdict compares a cell with the paper.
type Verdict struct {
	Paper      Published `json:"paper"`
	Difference float64   `json:"difference"`             // of accuracy, ours less the paper's
	Deviations float64   `json:"deviations"`             // the difference in the paper's standard deviations; 0 where that is 0
	Fixed      float64   `json:"fixed_tolerance"`        // of the paper's figures alone: twice its standard deviation, or .02
	Tolerance  float64   `json:"tolerance"`              // twice the larger of both standard deviations, or .02
	Within     bool      `json:"within"`                 // Tolerance
	ByOurs     bool      `json:"by_our_deviation_alone"` // within Tolerance, but not within Fixed: our draws spread so far
	Gated      bool      `json:"gated"`                  // false where the paper's figure is no yardstick
	Note       string    `json:"note,omitempty"`         // why not
}

// minTolerance is what a table of three digits and ten draws can hold at best.
const minTolerance = 0.02

// Judge holds a cell against the paper: within twice the larger of both
// standard deviations, or .02. Our own deviation can make that wide, so what
// passes by it alone, and not by twice the paper's or .02, is marked. A protocol
// that sets out to do better than the paper may be above by any amount. The second result is false where the paper
// says nothing of it.
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
	if trained(c.Model) && (c.Configurations < MaxConfigurations || c.Training.Epochs < PaperEpochs) {
		v.Note = fmt.Sprintf("%d configurations of up to %d epochs", c.Configurations, c.Training.Epochs)
	}
	v.Gated = v.Note == ""
	return v, true
}
