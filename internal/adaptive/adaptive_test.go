package adaptive

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestBoundIsExact uses dyadic level and rate, so that every share of 2^20 labels is exact in
// float64, and compares update and bound with fractions without a tolerance: for immediate and
// late labels, and for data from a careless adversary, a patient adversary and chance.
func TestBoundIsExact(t *testing.T) {
	rat := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
	for name, missed := range map[string]func(rng *rand.Rand, i int, share float64) bool{
		"always where it can":    func(_ *rand.Rand, _ int, share float64) bool { return share > 0 },
		"never where it need":    func(_ *rand.Rand, _ int, share float64) bool { return share >= 1 },
		"at its share":           func(rng *rand.Rand, _ int, share float64) bool { return rng.Float64() < share },
		"ten times its share":    func(rng *rand.Rand, _ int, share float64) bool { return rng.Float64() < 10*share },
		"a shift in the middle":  func(rng *rand.Rand, i int, share float64) bool { return rng.Float64() < share*float64(1+20*(i/2500)) },
		"to and fro":             func(_ *rand.Rand, i int, share float64) bool { return share > 0 && (share >= 1 || i/700%2 == 0) },
		"when it hurts the most": func(_ *rand.Rand, i int, share float64) bool { return share > 0 && (share >= 1 || share < .5) },
	} {
		for _, level := range []float64{15. / 16, .5, 1. / 8} {
			for _, rate := range []float64{1. / 4, 1. / 64} {
				for _, late := range []int{0, 1, 100} {
					rng := rand.New(rand.NewPCG(5, uint64(late)))
					const n = 5000
					var errs []int64
					shares := make([]float64, 0, n)
					r, err := Run(level, rate, late, n, func(i int, share float64) (bool, int) {
						if len(errs) > i { // the second call, for the fixed level
							return true, 0
						}
						shares = append(shares, share)
						e := int64(0)
						if missed(rng, i, share) {
							e = 1
						}
						errs = append(errs, e)
						return e == 0, 0
					})
					if err != nil {
						t.Fatal(err)
					}
					// The recursion of the paper, in fractions.
					aim, share, total := new(big.Rat).Sub(big.NewRat(1, 1), rat(level)), new(big.Rat).Sub(big.NewRat(1, 1), rat(level)), int64(0)
					for i, e := range errs {
						total += e
						if i > late {
							step := new(big.Rat).Sub(aim, new(big.Rat).SetInt64(errs[i-late-1]))
							share.Add(share, step.Mul(step, rat(rate)))
						}
						if rat(shares[i]).Cmp(share) != 0 {
							t.Fatalf("%s, level %v, rate %v, late %d: set %d is made at %v, want %v", name, level, rate, late, i, shares[i], share)
						}
					}
					off := new(big.Rat).Sub(big.NewRat(total, n), aim)
					bound := rat(max(level, 1-level) + float64(late+1)*rate) // exact
					bound.Quo(bound, new(big.Rat).Mul(rat(rate), big.NewRat(n, 1)))
					if off.Abs(off).Cmp(bound) > 0 {
						t.Errorf("%s, level %v, rate %v, late %d: off by %v, the bound is %v", name, level, rate, late, off, bound)
					}
					if got, _ := bound.Float64(); math.Abs(got-r.Bound) > 1e-15 || r.Coverage != 1-float64(total)/n && math.Abs(r.Coverage-(1-float64(total)/n)) > 1e-15 {
						t.Errorf("%s: reported as %+v", name, r)
					}
				}
			}
		}
	}
}

// TestWithoutAdaptingItIsBroken: here a fixed coverage is .72 below the level, the bound is
// .0019.
func TestWithoutAdaptingItIsBroken(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := make([]float64, 10000) // of the true class: uniform, and after a shift half of it
	for i := range p {
		if p[i] = rng.Float64(); i >= 2000 {
			p[i] /= 16
		}
	}
	r, err := Run(.9, .05, 0, len(p), func(i int, share float64) (bool, int) {
		return p[i] >= Threshold(.1, .9, share), 1
	})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(r.Fixed-.9) <= r.Bound || math.Abs(r.Coverage-.9) > r.Bound || r.Bound > .003 || r.Share > .1 {
		t.Errorf("%+v", r)
	}
}

// TestThreshold: a threshold is the model's at the model's share, never falls as the share
// grows, and has both ends.
func TestThreshold(t *testing.T) {
	for _, least := range []float64{0, 1e-9, .02, .3, .5, .97, 1} {
		for _, level := range []float64{.5, .9, .99} {
			if got := Threshold(least, level, 1-level); math.Abs(got-least) > 1e-15 {
				t.Errorf("%v at level %v: %v", least, level, got)
			}
			last := 0.0
			for _, share := range []float64{-1, 0, 1e-6, .01, .1, .5, .9, 1 - 1e-9, 1, 3} {
				got := Threshold(least, level, share)
				if got < last || share <= 0 && got != 0 || share >= 1 && got <= 1 || share > 0 && share < 1 && got > 1 {
					t.Errorf("%v at level %v, share %v: %v after %v", least, level, share, got, last)
				}
				last = got
			}
		}
	}
	if got := Threshold(.5, .9, .5); math.Abs(got-.9) > 1e-15 { // odds 1, times 1 over 1/9
		t.Errorf("by hand: %v, want .9", got)
	}
}

func TestRefuses(t *testing.T) {
	set := func(int, float64) (bool, int) { return true, 1 }
	for want, c := range map[string]struct {
		level, rate float64
		late, n     int
	}{
		"level 1,":                 {1, .1, 0, 1},
		"level NaN":                {math.NaN(), .1, 0, 1},
		"rate 0,":                  {.9, 0, 0, 1},
		"rate 1,":                  {.9, 1, 0, 1},
		"-1 labels late":           {.9, .1, -1, 1},
		"no prediction with a lab": {.9, .1, 0, 0},
	} {
		if _, err := Run(c.level, c.rate, c.late, c.n, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if r, err := Run(.9, .1, 50, 3, set); err != nil || r.Samples != 3 || math.Abs(r.Share-(.1+.1*3*.1)) > 1e-15 {
		t.Errorf("more late than there are: %+v, %v", r, err)
	}
}
