package abstain

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
)

// TestBinomial compares binomial tails and Clopper-Pearson bounds with exact fractions, closed
// forms and a sum of products; 1e-9 is far above any rounding.
func TestBinomial(t *testing.T) {
	for _, c := range []struct {
		k, n     int
		p, below float64
	}{
		{0, 149, .02, math.Pow(.98, 149)}, {1, 3, .5, .5}, {2, 2, .3, 1}, {3, 2, .3, 1},
		{2, 5, .25, 0.896484375}, {1, 4, .5, 0.3125},
	} {
		if got := atMost(c.k, c.n, c.p); math.Abs(got-c.below) > 1e-9 {
			t.Errorf("P(X <= %d) of %d at %v is %v, want %v", c.k, c.n, c.p, got, c.below)
		}
	}
	// Against the sum of exact products, for large n.
	sum, term := 0.0, math.Pow(.99, 2000)
	for i := range 21 {
		sum += term
		term *= float64(2000-i) / float64(i+1) * .01 / .99
	}
	if got := atMost(20, 2000, .01); math.Abs(got-sum) > 1e-9 {
		t.Errorf("P(X <= 20) of 2000 at .01 is %v, want %v", got, sum)
	}
	if got, want := upper(0, 59, .05), 1-math.Pow(.05, 1./59); math.Abs(got-want) > 1e-9 {
		t.Errorf("bound of 0 of 59: %v, want %v", got, want)
	}
	if got := upper(7, 7, .05); got != 1 {
		t.Errorf("bound of 7 of 7: %v", got)
	}
	if got := atMost(4, 200, upper(4, 200, .1)); math.Abs(got-.1) > 1e-9 {
		t.Errorf("at the bound of 4 of 200 they are seen with %v, want .1", got)
	}
}

func TestEnough(t *testing.T) {
	for want, c := range map[int][2]float64{149: {.02, .95}, 59: {.05, .95}, 114: {.02, .9}, 1: {.5, .5}} {
		if got := Enough(c[0], c[1]); got != want {
			t.Errorf("%v at confidence %v: %d, want %d", c[0], c[1], got, want)
		}
	}
}

// TestLearnByHand computes the rule by hand: with 0.1 and confidence 0.95, 29 without an error
// suffice, and 46 with one error. The steps are 1 - 0.1 x 2^(j/8): 0.9, 0.891, 0.881, ...
func TestLearnByHand(t *testing.T) {
	var p []float32
	var right []bool
	add := func(n int, at float32, ok bool) {
		for range n {
			p, right = append(p, at), append(right, ok)
		}
	}
	learn := func() (*readout.AbstainRule, *Count) {
		t.Helper()
		r, c, err := Learn(.1, .95, 4, p, right)
		if err == nil {
			err = r.Validate()
		}
		if err != nil {
			t.Fatal(err)
		}
		return r, c
	}
	add(28, .99, true)
	if r, c := learn(); r.Above != 1 || c.Answered != 0 || c.Error != nil || c.Bound != 0 || r.Answers(1) {
		t.Errorf("28 right ones: %+v, %+v: want none answered", r, c)
	}
	add(1, .85, true) // skipped until .85 is answered as well
	if r, c := learn(); r.Above != 0 || c.Answered != 29 || !r.Answers(.01) || r.Answers(0) {
		t.Errorf("29 right ones: %+v, %+v: want all answered", r, c)
	}
	add(1, .6, false) // 1 of 30: all thresholds above .6 hold
	r, c := learn()
	if step := 1 - .1*math.Exp2(15./8); r.Above < .6 || r.Above != step || c.Answered != 29 || c.Wrong != 0 || *c.Error != 0 || math.Abs(c.All-1./30) > 1e-12 || !(c.Bound <= .1) {
		t.Errorf("an error below: %+v, %+v, want above %v", r, c, step)
	}
	add(16, .95, true) // 1 of 46
	if r, c := learn(); r.Above != 0 || c.Answered != 46 || c.Wrong != 1 || !(c.Bound <= .1) {
		t.Errorf("1 wrong of 46: %+v, %+v: want all answered", r, c)
	}
}

// TestConfidence: over 1,000 trainings the true error of the learned rule, known here, exceeds
// the limit in at most one of twenty, plus three deviations of this count, .021. Tested with
// right probabilities, and overconfident probabilities (half the true error).
func TestConfidence(t *testing.T) {
	const maxError, trainings, n, below = .05, 1000, 2000, .5
	for name, wrongAt := range map[string]func(p float64) float64{
		"calibrated": func(p float64) float64 { return 1 - p },
		"too sure":   func(p float64) float64 { return min(.5, 2*(1-p)) },
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		missed, answered := 0, 0
		p, right := make([]float32, n), make([]bool, n)
		for range trainings {
			for i := range p {
				x := rng.Float64()
				x = 1 - below*x*x // many of them sure
				p[i], right[i] = float32(x), rng.Float64() >= wrongAt(x)
			}
			r, c, err := Learn(maxError, .95, 2, p, right)
			if err != nil {
				t.Fatal(err)
			}
			if answered += c.Answered; c.Answered == 0 {
				continue
			}
			mean, end := 0.0, math.Sqrt(min(1, (1-r.Above)/below)) // x below it answers
			for i := range 1000 {
				x := (float64(i) + .5) / 1000 * end
				mean += wrongAt(1-below*x*x) / 1000
			}
			if mean > maxError {
				missed++
			}
		}
		if share := float64(missed) / trainings; share > .071 || answered == 0 {
			t.Errorf("%s: the error is larger than %v in %v of the trainings, %d answered", name, maxError, share, answered)
		} else {
			t.Logf("%s: larger in %.4f of the trainings, %.1f %% answered", name, share, 100*float64(answered)/trainings/n)
		}
	}
}

func TestRefuses(t *testing.T) {
	if _, _, err := Learn(.1, .9, 2, []float32{1}, nil); err == nil {
		t.Error("labels are missing")
	}
	if _, _, err := Learn(2, .9, 2, []float32{1}, []bool{true}); err == nil {
		t.Error("an error of 2")
	}
}
