package fit

import (
	"fmt"
	"math"
)

// weightsOf returns Options.ClassWeights with a mean of 1 over the samples, so that an alpha
// keeps its meaning; nil: no weights. counts are the samples of each class.
func weightsOf(given []float64, classes []string, counts []int) ([]float64, error) {
	if given == nil {
		return nil, nil
	}
	if len(given) != len(counts) {
		return nil, fmt.Errorf("fit: %d class weights, want one for each of %d classes", len(given), len(counts))
	}
	n, largest, sum := 0, 0.0, 0.0
	for k, w := range given {
		if !(w > 0) || math.IsInf(w, 0) {
			return nil, fmt.Errorf("fit: the weight of class %q is %v, want a positive number", classes[k], w)
		}
		n += counts[k]
		largest = max(largest, w)
	}
	weights := make([]float64, len(counts))
	for k, w := range given {
		weights[k] = w / largest
		sum += weights[k] * float64(counts[k])
	}
	for k := range weights {
		weights[k] *= float64(n) / sum
		if !(weights[k] >= 1/mostWeight) || weights[k] > mostWeight {
			return nil, fmt.Errorf("fit: the weight of class %q is %.3g times the mean of all samples, want %g to %g times: give it one nearer to the others", classes[k], weights[k], 1/mostWeight, mostWeight)
		}
	}
	return weights, nil
}

// mostWeight limits a class's weight, relative to the mean of all samples.
const mostWeight = 1e9

// weightAt returns a weight: 1 without weights.
func weightAt(weights []float64, i int) float64 {
	if weights == nil {
		return 1
	}
	return weights[i]
}

// total returns the weight of all samples.
func total(counts []int, weights []float64) float64 {
	sum := 0.0
	for k, c := range counts {
		sum += weightAt(weights, k) * float64(c)
	}
	return sum
}

// eachWeight passes the samples of each weight to take, adjacent and in order.
func eachWeight(features []float32, labels []int, weights []float64, take func(weight float64, features []float32)) {
	f := len(features) / len(labels)
	done := map[float64]bool{}
	var some []float32
	for _, first := range labels {
		w := weights[first]
		if done[w] {
			continue
		}
		done[w] = true
		some = some[:0]
		for i, l := range labels {
			if weights[l] == w {
				some = append(some, features[i*f:(i+1)*f]...)
			}
		}
		take(w, some)
	}
}
