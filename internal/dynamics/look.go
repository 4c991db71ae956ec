package dynamics

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// limit is the share of an activation's limit from which a unit is saturated.
const limit = .99

// Look computes figures of states of a recipe. It belongs to one goroutine.
type Look struct {
	spec      reservoir.Spec
	layout    engine.Layout
	features  []float32
	last, max int // indexes of these kinds of features; -1: the recipe has none
}

// NewLook returns a Look for a recipe.
func NewLook(s reservoir.Spec) *Look {
	l := &Look{spec: s, layout: engine.LayoutOf(s), features: make([]float32, s.FeatureCount()), last: -1, max: -1}
	all := reservoir.AllFeatures
	if s.Kind == reservoir.Mixed {
		all = reservoir.MixedFeatures
	}
	k := 0
	for _, f := range all { // the order of features in states, for any order in the recipe
		if !slices.Contains(s.Features, f) {
			continue
		}
		switch f {
		case reservoir.Last:
			l.last = k
		case reservoir.Max:
			l.max = k
		}
		k++
	}
	return l
}

// Figures are the figures of a state.
type Figures struct {
	Saturated float64 // share of the units, 0 to 1; 0 if the recipe has no feature max
	Size      float64 // root of the mean square of h; 0 if the recipe has no feature last
}

// ComputeFigures returns the figures of a state in the form of engine.Layout. It does
// not allocate.
func (l *Look) ComputeFigures(state []uint32) (f Figures) {
	l.layout.FeaturesOf(l.spec, state, l.features)
	units, kinds := l.spec.Units, len(l.spec.Features)
	saturated, squares := 0, 0.
	for r := range l.spec.Members {
		of := l.features[r*units*kinds:][:units*kinds]
		if l.max >= 0 {
			for _, v := range of[l.max*units:][:units] {
				if v >= limit {
					saturated++
				}
			}
		}
		if l.last >= 0 {
			for _, h := range of[l.last*units:][:units] {
				squares += float64(h) * float64(h)
			}
		}
	}
	n := float64(l.spec.Members * units)
	return Figures{Saturated: float64(saturated) / n, Size: math.Sqrt(squares / n)}
}
