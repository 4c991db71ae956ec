package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// sameMoments compares centered moments, relative to the features' deviations:
// 1e-12 allows each of some fifty terms a few roundings.
func sameMoments(t *testing.T, a, b *moments) {
	t.Helper()
	n := float64(a.count())
	sa, ga, ca := copied(a).center(scaling{standardize: true}, nil)
	sb, gb, cb := copied(b).center(scaling{standardize: true}, nil)
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

// copied returns a copy for center, which consumes moments.
func copied(g *moments) *moments {
	c := *g
	c.outer = g.outer.Clone()
	return &c
}

func merged(t *testing.T, g, other *moments) {
	t.Helper()
	if err := g.merge(other, func(i int) ([]float64, error) { return other.outer.Row(i)[:i+1], nil }); err != nil {
		t.Fatal(err)
	}
}

func TestMergeIsOne(t *testing.T) {
	for _, r := range references(t) {
		t.Run(r.Name, func(t *testing.T) {
			n := len(r.Labels)
			whole := momentsOf(r, 0, n)
			empty := momentsOf(r, 0, 0)
			first, middle, last := momentsOf(r, 0, n/3), momentsOf(r, n/3, n/2), momentsOf(r, n/2, n)
			for _, g := range []*moments{middle, empty, first} {
				merged(t, last, g)
			}
			if last.count() != n {
				t.Fatalf("merged count %d, want %d", last.count(), n)
			}
			sameMoments(t, whole, last)

			merged(t, empty, middle)
			for i := range n / 3 { // one by one, after a merge into empty moments
				empty.add(r.X[i*r.Features:(i+1)*r.Features], r.Labels[i:i+1])
			}
			merged(t, empty, momentsOf(r, n/2, n))
			sameMoments(t, whole, empty)
		})
	}
}

// TestMomentsKeepSmallDeviations has more samples than a panel, and features whose mean is a
// million deviations: float32 keeps some 16 levels of such a feature, and raw moments in
// float64 would keep four digits of its variance.
func TestMomentsKeepSmallDeviations(t *testing.T) {
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
	g := newMoments(2, 2)
	g.add(x, labels)
	_, gram, _ := g.center(scaling{}, nil)
	if got := gram.Row(0)[0]; math.Abs(got-square) > 1e-12*square {
		t.Errorf("centered moment %.15g, want %.15g", got, square)
	}
}

func TestAlphaZeroNeedsFullRank(t *testing.T) {
	fit := func(alpha float64) error {
		_, _, err := Fit(context.Background(), []float32{1, 1, 2, 2, 4, 4}, []int{0, 1, 1}, classNames(2), Options{Alphas: []float64{alpha}})
		return err
	}
	if err := fit(0); !errors.Is(err, dense.ErrSingular) {
		t.Errorf("got %v, want ErrSingular", err)
	}
	if err := fit(1e-6); err != nil {
		t.Errorf("alpha 1e-6: %v", err)
	}
}
