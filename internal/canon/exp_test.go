package canon

import (
	"math"
	"testing"
)

// TestExpNegative holds it to the standard library's Exp, which is exact to an
// ulp, 2.2e-16 relative at most. Each of up to ten squarings doubles the relative error.
func TestExpNegative(t *testing.T) {
	for x := 1e-9; x < 800; x *= 1.0003 {
		got, want := ExpNegative(x), math.Exp(-x)
		limit := 5e-16
		if x > 1 {
			limit = 3e-13
		}
		if x > 708 {
			want = 0
		}
		if err := math.Abs(got - want); err > limit*want {
			t.Fatalf("exp(-%v) is %v, want %v: %v relative", x, got, want, err/want)
		}
	}
	for x, want := range map[float64]float64{0: 1, math.Inf(1): 0, 1e300: 0, math.SmallestNonzeroFloat64: 1} {
		if got := ExpNegative(x); got != want {
			t.Errorf("exp(-%v) is %v, want %v", x, got, want)
		}
	}
	if got := ExpNegative(math.NaN()); got == got {
		t.Errorf("exp(NaN) is %v", got)
	}
}

// The bits are promised: probabilities are published with them.
func TestExpPinned(t *testing.T) {
	for x, want := range map[float64]uint64{
		0.3: 0x3fe7b4c869c37c05, 1: 0x3fd78b56362cef38, 2.5: 0x3fb50385c094f427, 17: 0x3e6639e3175a689c, 300: 0x24e245639c3a494f,
	} {
		if got := math.Float64bits(ExpNegative(x)); got != want {
			t.Errorf("exp(-%v) has the bits %#x, want %#x", x, got, want)
		}
	}
}
