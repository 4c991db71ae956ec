package readout

import (
	"math"
	"testing"
)

// TestChange: the probability of a change falls with the margin for this rule, is never 0, and
// is 1 for values that are no numbers.
func TestChange(t *testing.T) {
	r := &EarlyRule{Length: 100, Coefficients: [4]float64{-1, 0, 2, 0}, Most: .25}
	last := float32(1)
	for _, m := range []float64{0, .1, 1, 5, 50, 1e6, math.MaxFloat64} {
		p := r.Change(10, m)
		if !(p > 0 && p <= last) {
			t.Errorf("margin %v: %v behind %v", m, p, last)
		}
		if want := float32(1 / (1 + math.Exp(-1+2*m))); m < 10 && math.Abs(float64(p-want)) > 1e-7 { // a float32's rounding
			t.Errorf("margin %v: %v, want %v", m, p, want)
		}
		if r.Decided(p) != (p <= .25) {
			t.Errorf("margin %v: decided at %v", m, p)
		}
		last = p
	}
	for _, m := range []float64{math.NaN(), math.Inf(1), -1} {
		if p := r.Change(10, m); p != 1 {
			t.Errorf("margin %v: %v, want 1", m, p)
		}
	}
	time := &EarlyRule{Length: 100, Coefficients: [4]float64{0, 1, 0, 0}}
	if a, b := time.Change(100, 1), time.Change(1000, 1); a != b {
		t.Errorf("beyond the median length %v, want %v", b, a)
	}
}

func TestEarlyRuleIsChecked(t *testing.T) {
	for _, r := range []EarlyRule{{}, {Length: 5, Most: 2}, {Length: 5, Coefficients: [4]float64{math.Inf(1)}}, {Length: 5, Most: float32(math.NaN())}} {
		if r.Validate() == nil {
			t.Errorf("%+v is valid", r)
		}
	}
}
