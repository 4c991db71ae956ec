package imports

import "github.com/eusn-stream/eusn-stream/offline/archive"

// Summary describes a data set for a person before the first use.
type Summary struct {
	Name     string               `json:"name"`
	Format   string               `json:"format"`
	Channels int                  `json:"channels"` // 0: token lists
	Classes  []string             `json:"classes"`
	Train    SplitSummary         `json:"train"`
	Test     SplitSummary         `json:"test"`
	Files    []archive.SourceFile `json:"files"`
	Warnings []string             `json:"warnings,omitzero"`
}

// SplitSummary counts a part of a data set.
type SplitSummary struct {
	Series      int    `json:"series"`
	Samples     int64  `json:"samples"`    // over all series; tokens if the set holds tokens
	MinLength   int    `json:"min_length"` // samples; 0 if the split is empty
	MaxLength   int    `json:"max_length"`
	Missing     int64  `json:"missing"`   // values that are NaN
	Unlabeled   int    `json:"unlabeled"` // series of unknown class
	ByClass     []int  `json:"by_class"`  // series of each class, in the order of Summary.Classes
	Fingerprint string `json:"fingerprint"`
}

// Summarize counts d. It reads every value once.
func Summarize(d *archive.Dataset) Summary {
	return Summary{
		Name:     d.Name,
		Format:   d.Source.Format,
		Channels: len(d.Channels),
		Classes:  d.Classes,
		Train:    summarizeSplit(d, archive.Train),
		Test:     summarizeSplit(d, archive.Test),
		Files:    d.Source.Files,
		Warnings: d.Source.Warnings,
	}
}

func summarizeSplit(d *archive.Dataset, split archive.Split) SplitSummary {
	sum := SplitSummary{ByClass: make([]int, len(d.Classes)), Fingerprint: d.Fingerprint(split)}
	for n, i := range d.Part(split) {
		s, length := &d.Series[i], d.Len(i)
		sum.Series++
		sum.Samples += int64(length)
		sum.MaxLength = max(sum.MaxLength, length)
		if n == 0 || length < sum.MinLength {
			sum.MinLength = length
		}
		for _, v := range s.Values {
			if v != v {
				sum.Missing++
			}
		}
		if s.Label < 0 {
			sum.Unlabeled++
		} else {
			sum.ByClass[s.Label]++
		}
	}
	return sum
}
