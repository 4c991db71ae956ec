package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// checkPriors reports errors in Options.Priors; counts are the samples of each class.
func checkPriors(priors []float64, classes []string, counts []int) error {
	if priors == nil {
		return nil
	}
	if len(priors) != len(counts) {
		return fmt.Errorf("fit: %d priors, want one for each of %d classes", len(priors), len(counts))
	}
	for k, p := range priors {
		if !(p > 0) || math.IsInf(p, 0) {
			return fmt.Errorf("fit: the prior of class %q is %v, want a positive number", classes[k], p)
		}
		if counts[k] == 0 {
			return fmt.Errorf("fit: priors, and class %q has no sample, so its training frequency is unknown", classes[k])
		}
	}
	return nil
}

// expect moves a readout from the class shares of its probabilities to the priors: each
// probability times the ratio of the two, divided by their sum, by Bayes' rule (Saerens,
// Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a priori
// probabilities", 2002). Each score, changed in place, grows by log(ratio) over the
// temperature. expect returns the changed bias. shares are in any unit.
func expect(priors, shares []float64, temperature float64, bias []float64, scores dense.Matrix) ([]float64, error) {
	if temperature == 0 {
		return nil, errors.New("fit: leave-one-out gives no probabilities, so that priors change nothing: take a larger alpha, or no priors")
	}
	add, mean := make([]float64, len(priors)), 0.0
	for k, p := range priors {
		add[k] = math.Log(p/shares[k]) / temperature
		mean += add[k] / float64(len(priors))
	}
	for k := range add {
		add[k] -= mean // a number common to all scores has no effect
	}
	for i := range scores.Rows {
		floats.Add(scores.Row(i), add)
	}
	bias = slices.Clone(bias)
	if len(bias) == 1 {
		bias[0] += add[1] - add[0]
	} else {
		floats.Add(bias, add)
	}
	return bias, nil
}
