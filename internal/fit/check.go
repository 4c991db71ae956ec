package fit

import (
	"errors"
	"fmt"
	"math"
)

// checkSamples rejects samples that no fit can use, before any change.
func checkSamples(features []float32, labels []int, width, classes int) error {
	if len(features) != len(labels)*width {
		return fmt.Errorf("fit: %d feature values for %d labels of %d features, want %d", len(features), len(labels), width, len(labels)*width)
	}
	for i, l := range labels {
		if l < 0 || l >= classes {
			return fmt.Errorf("fit: sample %d: label %d, want 0 to %d", i, l, classes-1)
		}
	}
	for i, x := range features {
		if x-x != 0 { // infinite or not a number
			return fmt.Errorf("fit: sample %d: feature %d is %v, want a finite number", i/width, i%width, x)
		}
	}
	return nil
}

// checkCounts requires at least two classes with a sample; numbers have one class.
func checkCounts(counts []int, classes []string, numbers bool) error {
	if numbers {
		return nil
	}
	present, last := 0, ""
	for k, c := range counts {
		if c > 0 {
			present++
			last = classes[k]
		}
	}
	switch present {
	case 0:
		return errors.New("fit: want samples of at least two classes, got no sample")
	case 1:
		return fmt.Errorf("fit: every sample is of class %q, want at least two classes", last)
	}
	return nil
}

// CheckAlphas requires regularizations of zero or more, in ascending order.
func CheckAlphas(alphas []float64) error {
	if len(alphas) == 0 {
		return errors.New("fit: no alpha given, want at least one")
	}
	for i, a := range alphas {
		if !(a >= 0) || math.IsInf(a, 0) {
			return fmt.Errorf("fit: alpha = %g, want zero or a positive number", a)
		}
		if i > 0 && a <= alphas[i-1] {
			return fmt.Errorf("fit: alphas %g, %g, want ascending order", alphas[i-1], a)
		}
	}
	return nil
}

// checkFit checks the arguments of Fit and counts the samples per class; numbers have one
// class.
func checkFit(features []float32, labels []int, classes []string, numbers bool) ([]int, error) {
	n := len(labels)
	if len(classes) < 2 && !numbers || n == 0 || len(features) == 0 {
		return nil, fmt.Errorf("fit: %d classes, %d samples, %d feature values, want at least 2, 2 and 2", len(classes), n, len(features))
	}
	if err := checkSamples(features, labels, len(features)/n, len(classes)); err != nil {
		return nil, err
	}
	counts := make([]int, len(classes))
	for _, l := range labels {
		counts[l]++
	}
	return counts, checkCounts(counts, classes, numbers)
}
