package descent

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// The gradient equals the central difference, with an error of some 1e-10 for a step of
// 1e-5; the class has the largest score.
func TestCrossEntropy(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		scores := make([]float64, 1+rng.IntN(5))
		for i := range scores {
			scores[i] = 5 * rng.NormFloat64()
		}
		class := rng.IntN(max(2, len(scores)))
		at := func(i int, step float64) float64 {
			s := slices.Clone(scores)
			s[i] += step
			loss, _ := CrossEntropy(s, class, 0)
			return loss
		}
		gradient := slices.Clone(scores)
		_, best := CrossEntropy(gradient, class, 3)
		for i, g := range gradient {
			want := 3 * (at(i, 1e-5) - at(i, -1e-5)) / 2e-5
			if !(math.Abs(g-want) <= 1e-8) {
				t.Errorf("scores %v, class %d: gradient %d is %v, differences %v", scores, class, i, g, want)
			}
		}
		want := slices.Index(scores, slices.Max(scores))
		if len(scores) == 1 {
			want = map[bool]int{false: 0, true: 1}[scores[0] > 0]
		}
		if best != want {
			t.Errorf("scores %v: class %d, want %d", scores, best, want)
		}
	}
}

// Scores beyond the range of an exponential give the limit of the loss.
func TestCrossEntropyOfLargeScores(t *testing.T) {
	for _, c := range []struct {
		scores   []float64
		class    int
		loss     float64
		gradient []float64
	}{
		{[]float64{1e4}, 1, 0, []float64{0}},
		{[]float64{1e4}, 0, 1e4, []float64{1}},
		{[]float64{-1e4}, 1, 1e4, []float64{-1}},
		{[]float64{1e4, -1e4, 0}, 0, 0, []float64{0, 0, 0}},
		{[]float64{1e4, -1e4, 0}, 1, 2e4, []float64{1, -1, 0}},
	} {
		gradient := slices.Clone(c.scores)
		if loss, _ := CrossEntropy(gradient, c.class, 1); loss != c.loss || !slices.Equal(gradient, c.gradient) {
			t.Errorf("scores %v, class %d: loss %v, gradient %v, want %v and %v", c.scores, c.class, loss, gradient, c.loss, c.gradient)
		}
	}
}

// A uniform distribution of this limit has variance 2/(rows+columns). Of 30,000 draws the
// sample variance deviates by .5 %: five times as much is allowed.
func TestGlorot(t *testing.T) {
	m := dense.New(100, 300)
	Glorot(rand.New(rand.NewPCG(1, 2)), m)
	var squares float64
	for _, v := range m.Data {
		squares += v * v
	}
	if r := squares / 30000 / (2. / 400); math.Abs(r-1) > 0.025 {
		t.Errorf("variance %v of what it should be", r)
	}
	if limit := math.Sqrt(6. / 400); slices.Max(m.Data) > limit || slices.Min(m.Data) < -limit {
		t.Errorf("weights from %v to %v, want within %v", slices.Min(m.Data), slices.Max(m.Data), limit)
	}
}
