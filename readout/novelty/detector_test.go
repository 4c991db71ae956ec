package novelty

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLimit: a limit is the start of a level, for any level.
func TestLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 9, 99, 1000} {
		d := &Detector{}
		for range n {
			d.Left = append(d.Left, float32(r.IntN(40))/8) // with ties
		}
		slices.Sort(d.Left)
		for _, d.Level = range []float32{1e-4, .001, .01, .05, .5, .999} {
			limit, ok := d.Limit()
			for s := float32(0); s < 7; s += 1. / 16 {
				if novel := d.Novel(d.P(s)); novel != (ok && s > limit) {
					t.Fatalf("%d left out, level %v: score %v has p %v, and the limit is %v, %v", n, d.Level, s, d.P(s), limit, ok)
				}
			}
		}
		nan := float32(math.NaN())
		if d.P(nan) != d.P(float32(math.Inf(1))) || d.P(nan) != float32(d.Least()) {
			t.Errorf("no number has the p-value %v", d.P(nan))
		}
	}
}
