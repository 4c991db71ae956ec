package compare

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"sync"
)

// Classifiers are the classifiers with published figures, in the order of tables.
var Classifiers = []string{"1NN-DTW", "ROCKET", "MiniROCKET", "MultiROCKET", "MultiROCKET-Hydra", "QUANT", "HIVE-COTE 2"}

// Published returns a classifier's published accuracy on the archive's split. The file
// published.json has the source of each figure.
func Published(classifier string) Method {
	return Method{classifier, func(dataset string) (float64, bool) {
		a, ok := published().figures[dataset][classifier]
		return a, ok
	}}
}

// Sets returns the 41 data sets of the UCR and UEA archives on which banks are compared:
// data sets with available files, a published figure of HIVE-COTE 2, and the archive's
// split (MotionSenseHAR's is rebuilt). The order is the order of tables.
func Sets() []string { return slices.Clone(published().Sets) }

// Quick are six of Sets that together take seconds: short series, at most 400 training
// series, at least 150 test series, some with several channels, some with many classes.
// Accuracies played no part in the choice.
var Quick = []string{"ItalyPowerDemand", "MedicalImages", "MoteStrain", "NATOPS", "RacketSports", "SonyAIBORobotSurface1"}

// Sources are the sources of the published figures.
func Sources() []Source {
	var all []Source
	for _, b := range published().Blocks {
		all = append(all, b.Source)
	}
	return all
}

// Source is the source of figures.
type Source struct {
	Source   string `json:"source"`   // files, and the meaning of names there
	Address  string `json:"address"`  // of the repository
	Commit   string `json:"commit"`   // of the copy that was read
	Date     string `json:"date"`     // of the files' last change
	Resample string `json:"resample"` // the split
}

// publishedFile is published.json. A figure is in one block.
type publishedFile struct {
	Sets   []string `json:"sets"`
	Blocks []struct {
		Source
		Figures map[string]map[string]float64 `json:"figures"` // by data set and classifier
	} `json:"blocks"`
	figures map[string]map[string]float64 // of all blocks
}

//go:embed published.json
var publishedJSON []byte

var published = sync.OnceValue(func() *publishedFile {
	f := &publishedFile{figures: map[string]map[string]float64{}}
	if err := json.Unmarshal(publishedJSON, f); err != nil {
		panic("compare: published.json: " + err.Error()) // the file is part of the program
	}
	for _, b := range f.Blocks {
		for dataset, of := range b.Figures {
			if f.figures[dataset] == nil {
				f.figures[dataset] = map[string]float64{}
			}
			maps.Copy(f.figures[dataset], of)
		}
	}
	return f
})
