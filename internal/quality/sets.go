package quality

import (
	"fmt"
	"slices"
)

// Sets measures the share of sets that hold the true class, and the number of classes in a
// set.
type Sets struct {
	Samples  int     `json:"samples"`
	Coverage float64 `json:"coverage"`  // share of samples whose set holds their class
	Size     float64 `json:"mean_size"` // classes of a set
	Empty    int     `json:"empty"`     // samples whose set has no class
	Single   int     `json:"single"`    // one class: an answer
	Several  int     `json:"several"`   // more
	Wrong    int     `json:"wrong"`     // of Single, sets with a wrong class

	Classes []SetClass `json:"by_class"` // in the readout's order
}

// SetClass measures the sets of a class's samples.
type SetClass struct {
	Class    string   `json:"class"`
	Samples  int      `json:"samples"`
	Coverage *float64 `json:"coverage"`  // nil: no sample
	Size     *float64 `json:"mean_size"` // nil: no sample
}

// OfSets measures the sets of samples with labels.
func OfSets(classes []string, labels []int, set func(i int) []int32) (*Sets, error) {
	if len(labels) == 0 {
		return nil, fmt.Errorf("quality: sets of no sample, want at least one")
	}
	r := &Sets{Samples: len(labels), Classes: make([]SetClass, len(classes))}
	held, sizes, all, total := make([]int, len(classes)), make([]int, len(classes)), 0, 0
	for k, name := range classes {
		r.Classes[k].Class = name
	}
	for i, label := range labels {
		if label < 0 || label >= len(classes) {
			return nil, fmt.Errorf("quality: sample %d has label %d, want 0 to %d", i, label, len(classes)-1)
		}
		s := set(i)
		right := slices.Contains(s, int32(label))
		switch len(s) {
		case 0:
			r.Empty++
		case 1:
			r.Single++
			if !right {
				r.Wrong++
			}
		default:
			r.Several++
		}
		r.Classes[label].Samples++
		sizes[label] += len(s)
		total += len(s)
		if right {
			held[label]++
			all++
		}
	}
	r.Coverage, r.Size = *share(all, r.Samples), *share(total, r.Samples)
	for k := range r.Classes {
		if c := &r.Classes[k]; c.Samples > 0 {
			c.Coverage, c.Size = share(held[k], c.Samples), share(sizes[k], c.Samples)
		}
	}
	return r, nil
}
