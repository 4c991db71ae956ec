package fit

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout"
)

// TestAdapt checks that labels move the thresholds by the recursion written here, in the given
// order, and that the result has the thresholds of the last share.
func TestAdapt(t *testing.T) {
	const level, rate = .8, .05
	x, labels := blobs(200, 10, 3)
	l, r, err := Fit(context.Background(), x, labels, classNames(3), Options{Standardize: true, Coverage: level, Left: true})
	if err != nil {
		t.Fatal(err)
	}
	orders := map[string][]int{"as added": nil, "backwards": nil, "the last ones alone": nil}
	for i := range labels {
		orders["as added"] = append(orders["as added"], i)
		orders["backwards"] = append(orders["backwards"], len(labels)-1-i)
	}
	orders["the last ones alone"] = orders["as added"][150:]
	p := shares(r.Left.Scores, l.Temperature)
	shares := map[float64]bool{}
	for name, order := range orders {
		c, report, err := AdaptCoverage(l.Coverage, rate, l.Temperature, r.Left.Scores, labels, order)
		if err != nil {
			t.Fatal(err)
		}
		share, missed := 1-level, 0
		for _, i := range order {
			if p.Row(i)[labels[i]] < adaptive.Threshold(l.Coverage.Least[labels[i]], level, share) {
				missed++
				share -= rate
			}
			share += rate * (1 - level)
		}
		// The recursion is rounded 400 times to a part in 2^53, the sum once.
		if math.Abs(share-report.Share) > 1e-12 || math.Abs(report.Coverage-(1-float64(missed)/float64(len(order)))) > 1e-12 {
			t.Errorf("%s: %+v, want share %v with %d missed", name, report, share, missed)
		}
		if c.Level != level || math.Abs(c.Adapted-(1-share)) > 1e-12 || !slices.Equal(c.Least, ThresholdsAt(l.Coverage, report.Share)) {
			t.Errorf("%s: %+v, want thresholds at %v", name, c, share)
		}
		shares[report.Share] = true
	}
	if len(shares) < 3 {
		t.Errorf("the order says nothing here: %v", shares)
	}
	// If each set had its class, sets shrink until all are empty; if no set did, sets grow
	// until all classes are included. The thresholds stay probabilities.
	sure, never := dense.New(60, 3), dense.New(60, 3)
	zero, all := make([]int, 60), make([]int, 60)
	for i := range all {
		all[i] = i
		sure.Row(i)[0], never.Row(i)[1] = 800, 800
	}
	tiny := &readout.Coverage{Level: level, Least: []float64{.01, .01, .01}}
	for _, scores := range []dense.Matrix{sure, never} {
		c, report, err := AdaptCoverage(tiny, .5, 1, scores, zero, all)
		if err != nil || math.Abs(report.Coverage-level) > report.Bound {
			t.Fatalf("%+v, %+v, %v", c, report, err)
		}
		of := readout.Linear{Name: "n", Classes: classNames(3), Center: []float32{0}, Weights: make([]float32, 3), Intercept: make([]float32, 3), Temperature: 1, Coverage: c}
		if err := of.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// A share of 1 excludes all classes from sets. A readout's thresholds are probabilities:
	// they act at the readout's new level, and stay below 1.
	for _, share := range []float64{1, 1.5} {
		c := ActingCoverage(tiny, share)
		if c.Adapted <= 0 || c.Adapted > 2e-9 || !slices.Equal(c.Least, ThresholdsAt(tiny, 1-c.Adapted)) || !(c.Least[0] > 1-1e-4 && c.Least[0] < 1) {
			t.Errorf("share %v: %+v", share, c)
		}
	}
	if c := ActingCoverage(tiny, -1); c.Adapted != 1 || c.Least[0] != 0 {
		t.Errorf("share -1: %+v", c)
	}
	if _, _, err := AdaptCoverage(tiny, 0, 1, sure, zero, all); err == nil {
		t.Error("a rate of 0")
	}
}
