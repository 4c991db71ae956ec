package offline

import (
	"fmt"
	"maps"
	"slices"
)

// Priors say how often each class is expected where a model will work, in any unit,
// where that is not how often it is in the training; see readout.Options.Priors. The
// zero value says nothing.
type Priors struct {
	Balanced bool               // all classes are equally likely
	Of       map[string]float64 // of every class, by its name; nil: none
}

// given reports whether anything is said.
func (p Priors) given() bool { return p.Balanced || p.Of != nil }

// in gives the priors in the order of classes, nil where there are none.
func (p Priors) in(classes []string) ([]float64, error) {
	if !p.given() {
		return nil, nil
	}
	values := make([]float64, len(classes))
	for k, class := range classes {
		v, known := p.Of[class]
		if p.Balanced {
			v, known = 1, true
		}
		if !known {
			return nil, fmt.Errorf("offline: priors without class %q, want one for each of %q", class, classes)
		}
		values[k] = v
	}
	for _, class := range slices.Sorted(maps.Keys(p.Of)) {
		if !slices.Contains(classes, class) {
			return nil, fmt.Errorf("offline: a prior of class %q, the classes are %q", class, classes)
		}
	}
	return values, nil
}

// CoverBy says what a coverage is a share of.
type CoverBy string

const (
	CoverAll   CoverBy = ""      // all sequences together
	CoverClass CoverBy = "class" // the sequences of each class
)
