package adaptive

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEdgesAreWhatTheRecursionSays uses dyadic fractions, so that sums of 5000 labels are
// exact in float64, and compares the edges with the recursion, and the shares with the bound,
// without a tolerance, for numbers from an adversary and chance, immediate and late.
func TestEdgesAreWhatTheRecursionSays(t *testing.T) {
	const n, low, high = 5000, -1., 2.
	grid := func(x float64) float64 { return math.Round(x*1024) / 1024 }
	for name, next := range map[string]func(rng *rand.Rand, i int, l, h float64) float64{
		"chance": func(rng *rand.Rand, _ int, _, _ float64) float64 { return grid(rng.NormFloat64()) },
		"a shift in the middle": func(rng *rand.Rand, i int, _, _ float64) float64 {
			return grid(rng.NormFloat64() + float64(9*(i/2500)))
		},
		"wider and wider": func(rng *rand.Rand, i int, _, _ float64) float64 { return grid(rng.NormFloat64() * float64(i) / 500) },
		"always the same": func(_ *rand.Rand, _ int, _, _ float64) float64 { return .25 },
		"just above":      func(_ *rand.Rand, _ int, _, h float64) float64 { return min(8, grid(h)+1./1024) },
		"just below":      func(_ *rand.Rand, _ int, l, _ float64) float64 { return max(-8, grid(l)-1./1024) },
		"where it hurts":  func(_ *rand.Rand, i int, l, h float64) float64 { return []float64{-8, 8}[i/700%2] },
	} {
		for _, level := range []float64{15. / 16, .5} {
			for _, rate := range []float64{1. / 4, 1. / 64} {
				for _, late := range []int{0, 1, 100} {
					rng := rand.New(rand.NewPCG(7, uint64(late)))
					b, s := (1-level)/2, rate*(high-low)/2
					l, h, x := low, high, []float64{}
					var below, above []float64
					// The recursion, as a separate walk that also draws the numbers.
					step := func(i int) {
						h += s * (above[i] - b)
						l -= s * (below[i] - b)
					}
					one := func(yes bool) float64 {
						if yes {
							return 1
						}
						return 0
					}
					held, width := 0, 0.
					for i := range n {
						if i > late {
							step(i - late - 1)
						}
						x = append(x, next(rng, i, l, h))
						below, above = append(below, one(x[i] < l)), append(above, one(x[i] > h))
						if x[i] >= l && x[i] <= h {
							held++
						}
						width += max(0, h-l) / n
					}
					for i := n - late - 1; i < n; i++ {
						step(i)
					}
					r, err := RunNumbers(level, rate, low, high, late, n, func(i int) float64 { return x[i] })
					if err != nil {
						t.Fatal(err)
					}
					if r.Low != l || r.High != h || r.Coverage != float64(held)/n || math.Abs(r.Width-width) > 1e-9*width {
						t.Errorf("%s, level %v, rate %v, late %d: %+v, want edges %v and %v, %d held, width %v", name, level, rate, late, r, l, h, held, width)
					}
					sum := func(of []float64) (n float64) {
						for _, v := range of {
							n += v
						}
						return n
					}
					if r.Below != sum(below)/n || r.Above != sum(above)/n {
						t.Errorf("%s: %v below and %v above, want %v and %v", name, r.Below, r.Above, sum(below)/n, sum(above)/n)
					}
					if off := max(math.Abs(r.Below-b), math.Abs(r.Above-b)); off > r.Bound {
						t.Errorf("%s, level %v, rate %v, late %d: off by %v, the bound is %v", name, level, rate, late, off, r.Bound)
					}
				}
			}
		}
	}
}

// TestEdgesFollowAShift: after a shift the model's own interval holds no number; the edges
// follow, only on their side, and are finally no wider than before.
func TestEdgesFollowAShift(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 6000)
	for i := range x {
		if x[i] = rng.NormFloat64(); i >= 2000 {
			x[i] += 5
		}
	}
	r, err := RunNumbers(.9, .05, -1.645, 1.645, 0, len(x), func(i int) float64 { return x[i] })
	if err != nil {
		t.Fatal(err)
	}
	// Each side within a hundredth, the bound; edges within a few steps of the quantiles.
	if r.Fixed > .32 || math.Abs(r.Below-.05) > .01 || math.Abs(r.Above-.05) > .02 || r.Bound > .03 || math.Abs(r.Low-3.355) > .6 || math.Abs(r.High-6.645) > .6 {
		t.Errorf("%+v", r)
	}
	if text := r.String(); !strings.Contains(text, "of 6000 numbers at rate 0.05") || !strings.Contains(text, "now value +3.") {
		t.Error(text)
	}
}

func TestEdgesRefuse(t *testing.T) {
	at := func(int) float64 { return 0 }
	for want, c := range map[string]struct {
		level, rate, low, high float64
		late, n                int
	}{
		"level 1,":                 {1, .1, -1, 1, 0, 1},
		"rate 0,":                  {.9, 0, -1, 1, 0, 1},
		"one that has a width":     {.9, .1, 1, 1, 0, 1},
		"from NaN":                 {.9, .1, math.NaN(), 1, 0, 1},
		"-1 labels late":           {.9, .1, -1, 1, -1, 1},
		"no prediction with a lab": {.9, .1, -1, 1, 0, 0},
	} {
		if _, err := RunNumbers(c.level, c.rate, c.low, c.high, c.late, c.n, at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
