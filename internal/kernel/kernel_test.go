package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// eachLevel runs a test for every set of kernels of this machine, and fails for
// a set that EUSN_REQUIRE names and the machine lacks.
func eachLevel(t *testing.T, test func(t *testing.T, s *Set)) {
	found := map[string]bool{}
	for _, s := range Levels() {
		found[s.Name] = true
		t.Run(s.Name, func(t *testing.T) {
			for _, atEnd := range []bool{false, true} {
				guardAtEnd = atEnd
				test(t, s)
			}
		})
	}
	for _, name := range []string{"avx512", "avx2", "neon"} {
		if !found[name] && parts.Required(name) {
			t.Errorf("this machine or build has no %s, and EUSN_REQUIRE names it", name)
		}
	}
	if len(found) == 0 {
		t.Skip("NOT CHECKED: this machine or build has no vector kernels")
	}
}

var guardAtEnd bool

func floats(t *testing.T, n int) []float32 { return guarded[float32](t, n, guardAtEnd) }

func random(rng *rand.Rand, v []float32) []float32 {
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func same(t *testing.T, what, value string, unit, lane int, got, want float32) {
	t.Helper()
	if math.Float32bits(got) != math.Float32bits(want) {
		t.Fatalf("%s: %s of unit %d, lane %d is %x, want %x", what, value, unit, lane, got, want)
	}
}
