package canon

import (
	"math"
	"testing"
)

// The cubic is its formula up to rounding, flat at both ends, odd, never falling
// and never beyond 1 by more than that.
func TestAddCubic(t *testing.T) {
	last := float32(-2)
	for i := -40000; i <= 40000; i++ {
		z := float32(i) / 20000
		got := AddCubic(0, z)
		c := math.Max(-1.5, math.Min(1.5, float64(z)))
		if want := c - 4./27*c*c*c; math.Abs(float64(got)-want) > 2e-7 {
			t.Fatalf("the cubic of %v is %v, want %v", z, got, want)
		}
		if got < last-2e-7 || got != -AddCubic(0, -z) {
			t.Fatalf("the cubic of %v is %v, of the value before it %v, of its negative %v", z, got, last, AddCubic(0, -z))
		}
		last = got
	}
	for z, want := range map[float32]float32{1.5: 1, 1e30: 1, -1.5: -1, -1e30: -1, 0: 0} {
		if got := AddCubic(0, z); got != want {
			t.Errorf("the cubic of %v is %v, want %v", z, got, want)
		}
	}
	// Found with exact fractions: any other order, and any rounding more or less,
	// gives another number here.
	if got, want := AddCubic(0x1.29d8p-03, 0x1.f8943ap-01), float32(0x1.fa704ep-01); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestAddClip(t *testing.T) {
	for _, c := range []struct{ h, z, want float32 }{{2, .25, 2.25}, {2, 3, 3}, {2, -3, 1}, {0, 1, 1}, {0x1p24, 1, 0x1p24}} {
		if got := AddClip(c.h, c.z); got != c.want {
			t.Errorf("%v and the limited %v are %v, want %v", c.h, c.z, got, c.want)
		}
	}
	if got, want := AddTanh(2, .5), float32(2)+Tanh(.5); got != want {
		t.Errorf("2 and tanh .5 are %v, want %v", got, want)
	}
}
