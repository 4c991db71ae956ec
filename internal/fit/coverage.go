package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/abstain"
	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/quality"
	"github.com/eusn-stream/eusn-stream/readout"
)

// newCoverage learns thresholds from left-out scores, one column for each class, at the
// readout's temperature, and reports the sets of the same samples.
func newCoverage(level float64, byClass bool, classes []string, labels []int, scores dense.Matrix, temperature float64) (*readout.Coverage, *quality.Sets, error) {
	if temperature == 0 {
		return nil, nil, errors.New("fit: leave-one-out gives no probabilities, so that there are none to make sets of: take a larger alpha, or no coverage")
	}
	c := &readout.Coverage{Level: level, ByClass: byClass, Least: make([]float64, len(classes))}
	p, all := shares(scores, temperature), make([]float64, len(labels))
	own := make([][]float64, len(classes))
	for i, label := range labels {
		all[i] = p.Row(i)[label]
		own[label] = append(own[label], all[i])
	}
	for k := range c.Least {
		if !byClass {
			own[k] = all
		}
		c.Least[k] = threshold(own[k], level)
	}
	sets, err := quality.OfSets(classes, labels, func(i int) (set []int32) {
		for k, v := range p.Row(i) {
			if v >= c.Least[k] {
				set = append(set, int32(k))
			}
		}
		return set
	})
	return c, sets, err
}

// ThresholdsAt returns the thresholds of c at a share of sets without the true class; see
// package adaptive. Above 1: the class is in no set.
func ThresholdsAt(c *readout.Coverage, share float64) []float64 {
	least := make([]float64, len(c.Least))
	for k, v := range c.Least {
		least[k] = adaptive.Threshold(v, c.Level, share)
	}
	return least
}

// AdaptCoverage moves the thresholds of c by labels, as in package adaptive: labels of
// left-out samples, one for each row of scores, in the order of rows given by order. It
// returns the thresholds of the next set, and a report of the sets. The sets come from
// left-out scores, so that no label judges a readout trained on this label.
func AdaptCoverage(c *readout.Coverage, rate, temperature float64, scores dense.Matrix, labels, order []int) (*readout.Coverage, *adaptive.Report, error) {
	p := shares(scores, temperature)
	r, err := adaptive.Run(c.Level, rate, 0, len(order), func(i int, share float64) (held bool, size int) {
		for k, v := range p.Row(order[i]) {
			if v >= adaptive.Threshold(c.Least[k], c.Level, share) {
				size++
				held = held || k == labels[order[i]]
			}
		}
		return held, size
	})
	if err != nil {
		return nil, nil, fmt.Errorf("fit: %w", err)
	}
	return ActingCoverage(c, r.Share), r, nil
}

// ActingCoverage returns c with the thresholds at a share of sets without the true class, for
// use in a readout. The level is at least 1e-9, which puts only an almost certain class into a
// set: thresholds above 1, possible for a share, are invalid in a readout.
func ActingCoverage(c *readout.Coverage, share float64) *readout.Coverage {
	share = min(share, 1-1e-9)
	return &readout.Coverage{Level: c.Level, ByClass: c.ByClass, Least: ThresholdsAt(c, share), Adapted: min(1, 1-share)}
}

// newAbstain learns a threshold from left-out scores, as newCoverage does.
func newAbstain(maxError, confidence float64, labels []int, scores dense.Matrix, temperature float64) (*readout.AbstainRule, *abstain.Count, error) {
	if temperature == 0 {
		return nil, nil, errors.New("fit: leave-one-out gives no probabilities, so no threshold can be chosen: specify a larger alpha, or no maximum error")
	}
	p, right := shares(scores, temperature), make([]bool, len(labels))
	predicted := make([]float32, len(labels))
	for i, label := range labels {
		top := slices.Max(scores.Row(i))
		class := slices.Index(scores.Row(i), top)
		predicted[i], right[i] = float32(p.Row(i)[class]), class == label
	}
	return abstain.Learn(maxError, confidence, scores.Cols, predicted, right)
}

// shares returns the probabilities of scores, as readout.Linear.Probability does.
func shares(scores dense.Matrix, temperature float64) dense.Matrix {
	p := dense.New(scores.Rows, scores.Cols)
	for i := range p.Rows {
		row, sum := scores.Row(i), 0.0
		top := slices.Max(row)
		for k, s := range row {
			v := canon.ExpNegative(float64(temperature * (top - s)))
			p.Row(i)[k] = v
			sum += v
		}
		for k := range row {
			p.Row(i)[k] /= sum
		}
	}
	return p
}

// threshold is the k-th smallest of n values, k being the largest number up to
// (1 - level) (n + 1). One more value of the same distribution, in any order with the
// n values, is below the threshold with probability k / (n + 1) at most. 0 if k is 0: too
// few values for this level.
func threshold(values []float64, level float64) float64 {
	const rounding = 1e-9 // of a level that is a decimal number
	k := int((1-level)*float64(len(values)+1) + rounding)
	if k == 0 {
		return 0
	}
	slices.Sort(values)
	return values[k-1]
}

// Enough returns the minimum number of samples of a class for a threshold above 0.
func Enough(level float64) int {
	n := 1
	for ; n < math.MaxInt32 && int((1-level)*float64(n+1)+1e-9) == 0; n++ {
	}
	return n
}

// newInterval learns an interval from left-out scores.
func newInterval(level float64, y targets, scores dense.Matrix) (*readout.Interval, error) {
	side := (1 + level) / 2
	if n, enough := len(y.numbers), Enough(side); n < enough {
		return nil, fmt.Errorf("fit: an interval of coverage %v needs at least %d samples to be left out in turn, there are %d: take a lower coverage, or more samples", level, enough, n)
	}
	below, above := make([]float64, len(y.numbers)), make([]float64, len(y.numbers))
	for i, number := range y.numbers {
		below[i] = number - scores.Row(i)[0]
		above[i] = -below[i]
	}
	return &readout.Interval{Level: level, Low: -up(-threshold(below, side)), High: up(-threshold(above, side))}, nil
}

// MoveInterval returns v with other ends, rounded outwards. If low is above high (an empty
// interval), both become the number in the middle.
func MoveInterval(v *readout.Interval, low, high float64) *readout.Interval {
	if low > high {
		low = low + (high-low)/2
		high = low
	}
	moved := *v
	moved.Low, moved.High = -up(-low), up(high)
	return &moved
}

// up returns the nearest float32 that is not below x.
func up(x float64) float32 {
	v := float32(x)
	if float64(v) < x {
		return math.Nextafter32(v, math.MaxFloat32)
	}
	return v
}
