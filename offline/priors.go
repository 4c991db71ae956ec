package offline

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// PerClass is a positive number of each class, in any unit. The zero value is none.
type PerClass struct {
	Balanced bool               // numbers that balance all classes
	Of       map[string]float64 // of every class, by its name; nil: none
}

// UnmarshalText parses a number of each class: balanced, or CLASS=NUMBER with commas
// between. Empty is none.
func (p *PerClass) UnmarshalText(text []byte) error {
	switch *p = (PerClass{}); string(text) {
	case "":
		return nil
	case "balanced":
		p.Balanced = true
		return nil
	}
	p.Of = map[string]float64{}
	for _, part := range strings.Split(string(text), ",") {
		at := strings.LastIndexByte(part, '=') // a class may hold one
		if at < 1 {
			return fmt.Errorf("%s: want balanced, or CLASS=NUMBER for every class, such as normal=50,worn=1", part)
		}
		v, err := strconv.ParseFloat(part[at+1:], 64)
		if err != nil || !(v > 0) || v > 1e300 {
			return fmt.Errorf("%s: want a positive number behind the class", part)
		}
		if _, twice := p.Of[part[:at]]; twice {
			return fmt.Errorf("class %q twice", part[:at])
		}
		p.Of[part[:at]] = v
	}
	return nil
}

// given reports whether any number is given.
func (p PerClass) given() bool { return p.Balanced || p.Of != nil }

// in returns the numbers in the order of classes, 1 each if balanced, nil if none are given. what names the numbers
// in errors.
func (p PerClass) in(what string, classes []string) ([]float64, error) {
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
			return nil, fmt.Errorf("offline: %s without class %q, want one for each of %q", what, class, classes)
		}
		values[k] = v
	}
	for _, class := range slices.Sorted(maps.Keys(p.Of)) {
		if !slices.Contains(classes, class) {
			return nil, fmt.Errorf("offline: %s with class %q, the classes are %q", what, class, classes)
		}
	}
	return values, nil
}

// of returns the weights of classes whose samples have these labels. Balanced weights are one over the number of
// samples.
func (p PerClass) of(classes []string, labels []int) []float64 {
	weights, _ := p.in("class weights", classes) // checkTraining refuses wrong weights
	if !p.Balanced {
		return weights
	}
	counts := make([]int, len(classes))
	for _, l := range labels {
		counts[l]++
	}
	for k, c := range counts {
		weights[k] = 1 / float64(max(1, c))
	}
	return weights
}
