package readout

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// sameMoments compares centred moments, relative to the features' deviations:
// 1e-12 allows each of some fifty terms a few roundings.
func sameMoments(t *testing.T, a, b *Gram) {
	t.Helper()
	sa, ga, ca := a.centre(true)
	sb, gb, cb := b.centre(true)
	n := float64(a.Count())
	for j := range sa.mean {
		if d := math.Abs(sa.mean[j]-sb.mean[j]) * sa.scale[j]; !(d < 1e-12) {
			t.Fatalf("mean %d: %g and %g", j, sa.mean[j], sb.mean[j])
		}
		for i, v := range ga.Row(j)[:j+1] {
			if d := math.Abs(v - gb.Row(j)[i]); !(d < 1e-12*n) {
				t.Fatalf("moment %d, %d: %g and %g", j, i, v, gb.Row(j)[i])
			}
		}
		for i, v := range ca.Row(j) {
			if d := math.Abs(v - cb.Row(j)[i]); !(d < 1e-12*n) {
				t.Fatalf("target moment %d, %d: %g and %g", j, i, v, cb.Row(j)[i])
			}
		}
	}
}

func TestMergeIsOneGram(t *testing.T) {
	for _, r := range references(t) {
		t.Run(r.Name, func(t *testing.T) {
			n := len(r.Labels)
			whole := gramOf(t, r, 0, n)
			empty := gramOf(t, r, 0, 0)
			first, middle, last := gramOf(t, r, 0, n/3), gramOf(t, r, n/3, n/2), gramOf(t, r, n/2, n)
			for _, g := range []*Gram{middle, empty, first} {
				if err := last.Merge(g); err != nil {
					t.Fatal(err)
				}
			}
			if last.Count() != n {
				t.Fatalf("merged count %d, want %d", last.Count(), n)
			}
			sameMoments(t, whole, last)

			if err := empty.Merge(middle); err != nil {
				t.Fatal(err)
			}
			for i := range n / 3 { // one by one, after a merge into an empty one
				if err := empty.Add(r.X[i*r.Features:(i+1)*r.Features], r.Labels[i:i+1]); err != nil {
					t.Fatal(err)
				}
			}
			if err := empty.Merge(gramOf(t, r, n/2, n)); err != nil {
				t.Fatal(err)
			}
			sameMoments(t, whole, empty)
		})
	}
}

// More samples than one panel, and features whose mean is a million
// deviations: float32 keeps some 16 levels of such a feature, and raw moments
// in float64 would keep four digits of its variance.
func TestGramKeepsSmallDeviations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 3*panel + 5
	x, labels, sum, square := make([]float32, 2*n), make([]int, n), 0.0, 0.0
	for i := range n {
		labels[i] = i % 2
		x[2*i] = float32(1e6 + rng.NormFloat64())
		x[2*i+1] = float32(rng.NormFloat64())
	}
	for i := range n {
		sum += float64(x[2*i]) - 1e6
	}
	for i := range n {
		d := float64(x[2*i]) - 1e6 - sum/n
		square += d * d
	}
	g, err := NewGram(2, classNames(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(x, labels); err != nil {
		t.Fatal(err)
	}
	_, gram, _ := g.centre(false)
	if got := gram.Row(0)[0]; math.Abs(got-square) > 1e-12*square {
		t.Errorf("centred moment %.15g, want %.15g", got, square)
	}
}

func TestGramRefuses(t *testing.T) {
	if _, err := NewGram(0, classNames(2)); err == nil {
		t.Error("no features: no error")
	}
	if _, err := NewGram(3, classNames(1)); err == nil {
		t.Error("one class: no error")
	}
	g, err := NewGram(2, classNames(3))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error naming %q", err, what)
		}
	}
	solve := func(alphas ...float64) error {
		_, err := g.Solve(context.Background(), alphas, false)
		return err
	}
	refused("label 3", g.Add([]float32{1, 2}, []int{3}))
	refused("label -1", g.Add([]float32{1, 2}, []int{-1}))
	refused("sample 1: feature 0", g.Add([]float32{1, 2, float32(math.NaN()), 4}, []int{0, 1}))
	refused("3 feature values", g.Add([]float32{1, 2, 3}, []int{0}))
	if g.Count() != 0 {
		t.Errorf("refused samples were counted: %d", g.Count())
	}
	refused("no samples", solve(1))
	if err := g.Add([]float32{1, 2, 3, 3}, []int{1, 1}); err != nil {
		t.Fatal(err)
	}
	refused(`"class 1"`, solve(1))
	if err := g.Add([]float32{2, 1}, []int{0}); err != nil {
		t.Fatal(err)
	}
	refused("no alpha", solve())
	refused("alpha = -1", solve(-1))
	refused("ascending", solve(2, 1))
	if err := solve(0); err != nil {
		t.Errorf("alpha 0, independent features: %v", err)
	}
	other, _ := NewGram(2, classNames(2))
	refused("different classes", g.Merge(other))
	other, _ = NewGram(5, classNames(3))
	refused("2 and 5 features", g.Merge(other))
}

func TestAlphaZeroNeedsFullRank(t *testing.T) {
	g, _ := NewGram(2, classNames(2))
	if err := g.Add([]float32{1, 1, 2, 2, 4, 4}, []int{0, 1, 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Solve(context.Background(), []float64{0}, false); !errors.Is(err, dense.ErrSingular) {
		t.Errorf("got %v, want ErrSingular", err)
	}
	if _, err := g.Solve(context.Background(), []float64{1e-6}, false); err != nil {
		t.Errorf("alpha 1e-6: %v", err)
	}
}
