package readout

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func classNames(n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = "class " + strconv.Itoa(i)
	}
	return s
}

// TestScoresAgreeWithFloat64: a chain of n fused multiply-adds is off by at most n roundings
// of the sum of the terms' sizes, f - Center by one more.
func TestScoresAgreeWithFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, n := range []int{1, 2, 200, 10000} {
		l := &Linear{Name: "h", Classes: classNames(3), Center: make([]float32, n), Weights: make([]float32, 3*n), Intercept: []float32{1, -2, 0.5}}
		f := make([]float32, n)
		for j := range f {
			l.Center[j] = float32(100 * rng.NormFloat64())
			f[j] = l.Center[j] + float32(rng.NormFloat64())
		}
		for j := range l.Weights {
			l.Weights[j] = float32(rng.NormFloat64())
		}
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 3)
		l.Scores(got, f)
		for c := range got {
			want, size := float64(l.Intercept[c]), math.Abs(float64(l.Intercept[c]))
			for j := range f {
				term := float64(l.Weights[c*n+j]) * (float64(f[j]) - float64(l.Center[j]))
				want += term
				size += math.Abs(term)
			}
			if d := math.Abs(float64(got[c]) - want); d > float64(n+2)*0x1p-24*size {
				t.Errorf("n=%d column %d: %g, want %g", n, c, got[c], want)
			}
		}
	}
}

func TestClass(t *testing.T) {
	two, three := &Linear{Classes: classNames(2)}, &Linear{Classes: classNames(3)}
	for _, c := range []struct {
		l      *Linear
		scores []float32
		want   int
	}{
		{two, []float32{0.1}, 1},
		{two, []float32{-0.1}, 0},
		{two, []float32{0}, 0},
		{three, []float32{-1, -0.5, -0.7}, 1},
		{three, []float32{-1, 3, 3}, 1}, // the first of equals
	} {
		if got := c.l.Class(c.scores); got != c.want {
			t.Errorf("%v of %d classes: %d, want %d", c.scores, len(c.l.Classes), got, c.want)
		}
	}
}

func TestValidateNamesTheProblem(t *testing.T) {
	good := func() *Linear {
		return &Linear{Name: "h", Classes: classNames(2), Center: []float32{1, 2}, Weights: []float32{3, 4}, Intercept: []float32{5}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(*Linear){
		"at least 2 classes": func(l *Linear) { l.Classes = l.Classes[:1] },
		"center is empty":    func(l *Linear) { l.Center = nil },
		"want 2 weights":     func(l *Linear) { l.Weights = l.Weights[:1] },
		"want 1 intercepts":  func(l *Linear) { l.Intercept = nil },
		"weights[1] is NaN":  func(l *Linear) { l.Weights[1] = float32(math.NaN()) },
		"center[0] is +Inf":  func(l *Linear) { l.Center[0] = float32(math.Inf(1)) },
	} {
		l := good()
		spoil(l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error saying %q", err, what)
		}
	}
}

// TestProbability: probabilities are the softmax of the scores times the temperature; with one
// score, of 0 and the score; and 0 if the temperature or a score is no number.
func TestProbability(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, classes := range []int{2, 3, 7} {
		l := &Linear{Classes: classNames(classes), Temperature: 1.75}
		scores := make([]float32, l.Columns())
		for range 1000 {
			for c := range scores {
				scores[c] = float32(math.Exp(3*rng.NormFloat64()) * rng.NormFloat64())
			}
			all, sum := []float64{0}, 0.0
			if classes > 2 {
				all = nil
			}
			for _, s := range scores {
				all = append(all, float64(s))
			}
			for _, s := range all {
				sum += math.Exp(l.Temperature * (s - all[l.Class(scores)]))
			}
			got := l.Probability(scores)
			// float32 rounds to half a unit in the last place, 2^-25 of up to 1.
			if want := 1 / sum; math.Abs(float64(got)-want) > 0x1p-25*1.001 || got < 1/float32(classes) || got > 1 {
				t.Fatalf("%v: %v, want %v", scores, got, want)
			}
		}
		clear(scores)
		scores[0] = float32(math.NaN())
		if got := l.Probability(scores); got != 0 {
			t.Errorf("%d classes, a score that is no number: %v, want none", classes, got)
		}
		l.Temperature = 0
		if got := l.Probability(scores); got != 0 {
			t.Errorf("%d classes without a temperature: %v, want none", classes, got)
		}
	}
	pinned := &Linear{Classes: classNames(3), Temperature: 2.8125}
	for want, scores := range map[float32][]float32{0x1p-1: {1, 1, -40}, 1: {9, -9, -9}} {
		if got := pinned.Probability(scores); got != want {
			t.Errorf("%v: %x, want %x", scores, got, want)
		}
	}
}
