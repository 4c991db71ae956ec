package readout

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// randomFeatures are drawn random features, with learned weights.
func randomFeatures(units, statistics int) *RandomFeatures {
	rng := rand.New(rand.NewPCG(3, uint64(units)))
	noise := func(n int, factor float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * factor)
		}
		return v
	}
	return &RandomFeatures{
		Center: noise(statistics, 100), Weights: noise(units*statistics, 1/math.Sqrt(float64(statistics))), Bias: noise(units, 1), Out: noise(units, 3),
	}
}

// regression is a readout of four features with random features of the given sizes.
func regression(units, statistics int) *Linear {
	return &Linear{
		Name: "life", Classes: []string{"life"}, Center: make([]float32, 4), Weights: make([]float32, 4), Intercept: []float32{60},
		Interval: &Interval{Level: .9, Low: -3, High: 2}, Random: randomFeatures(units, statistics),
	}
}

// Every unit is tanh of its own sum, for any number of units, and close to the exact value;
// the answer adds the learned sum to the score before the limits.
func TestRandomFeatures(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, units := range []int{1, 3, 4, 63, 64, 70, 512} {
		l := regression(units, 9)
		r := l.Random
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		statistics := make([]float32, 9)
		for j := range statistics {
			statistics[j] = r.Center[j] + float32(rng.NormFloat64())
		}
		got := make([]float32, units)
		r.Features(got, statistics)
		sum := float64(60)
		for u := range units {
			z, exact, magnitude := r.Bias[u], float64(r.Bias[u]), math.Abs(float64(r.Bias[u]))
			for j, s := range statistics {
				z += float32(r.Weights[u*9+j] * (s - r.Center[j]))
				term := float64(r.Weights[u*9+j]) * (float64(s) - float64(r.Center[j]))
				exact, magnitude = exact+term, magnitude+math.Abs(term)
			}
			if want := canon.Tanh(z); got[u] != want {
				t.Fatalf("%d units, unit %d: %v, want %v", units, u, got[u], want)
			}
			// the error of canon.Tanh, and of its argument: nine products and sums in float32
			if tolerance := canon.TanhError + 20*0x1p-24*magnitude; math.Abs(float64(got[u])-math.Tanh(exact)) > tolerance {
				t.Errorf("%d units, unit %d: %v, tanh is %v", units, u, got[u], math.Tanh(exact))
			}
			sum += float64(float64(r.Out[u]) * float64(got[u]))
		}
		want := float32(sum)
		scores, features := []float32{60}, []float32{1, 2, 3, 4}
		var a outcome.Answer
		if l.Answer(&a, scores, Seen{Statistics: statistics}, nil); a.Number.Value != want || a.Score != want || a.Scores[0] != want || a.Number.Low != want-3 {
			t.Errorf("%d units: %+v, want %v", units, a, want)
		}
		if l.AnswerScores(scores, features, statistics); scores[0] != want {
			t.Errorf("%d units: AnswerScores gives %v, want %v", units, scores[0], want)
		}
		l.Interval.Clip = &[2]float32{want + 1, want + 9}
		if l.Answer(&a, []float32{60}, Seen{Statistics: statistics}, nil); a.Number.Value != want+1 || a.Scores[0] != want {
			t.Errorf("%d units: %+v, want the least value %v", units, a, want+1)
		}
	}
}

// A value beyond all training data leaves each unit within -1 to 1.
func TestRandomFeaturesAreBounded(t *testing.T) {
	r := randomFeatures(16, 3)
	got := make([]float32, 16)
	r.Features(got, []float32{math.MaxFloat32, -math.MaxFloat32, math.MaxFloat32})
	for u, v := range got {
		if !(v == 1 || v == -1) {
			t.Errorf("unit %d: %v, want 1 or -1", u, v)
		}
	}
}

// Shapes that do not fit, numbers that are not finite and classes are refused.
func TestRandomFeaturesAreChecked(t *testing.T) {
	for name, change := range map[string]func(l *Linear){
		"classes":    func(l *Linear) { l.Interval, l.Classes = nil, []string{"a", "b"} },
		"weights":    func(l *Linear) { l.Random.Weights = l.Random.Weights[1:] },
		"no unit":    func(l *Linear) { *l.Random = RandomFeatures{Center: []float32{1}} },
		"statistics": func(l *Linear) { l.Random.Center = nil },
		"out":        func(l *Linear) { l.Random.Out = append(l.Random.Out, 1) },
		"NaN":        func(l *Linear) { l.Random.Bias[2] = float32(math.NaN()) },
	} {
		l := regression(5, 2)
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(l); l.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// An answer allocates nothing.
func TestRandomFeaturesAllocate(t *testing.T) {
	l := regression(512, 96)
	scores, statistics := []float32{1}, slices.Repeat([]float32{1}, 96)
	var a outcome.Answer
	if n := testing.AllocsPerRun(20, func() { l.Answer(&a, scores, Seen{Statistics: statistics}, nil) }); n > 0 {
		t.Errorf("%v allocations a prediction", n)
	}
}

// The cost of a prediction with the default number of units, 24 channels and four means.
func BenchmarkRandomFeatures(b *testing.B) {
	l := regression(512, 96)
	scores, statistics := []float32{1}, slices.Repeat([]float32{1}, 96)
	var a outcome.Answer
	b.ReportAllocs()
	for b.Loop() {
		l.Answer(&a, scores, Seen{Statistics: statistics}, nil)
	}
}
