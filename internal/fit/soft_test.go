package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSoftScales compares the scales with the formula, by kind; a constant feature stays out
// and does not enter the median.
func TestSoftScales(t *testing.T) {
	// Two kinds in runs of two: kind 0 has features 0, 1, 4, 5, kind 1 the others.
	deviations := []float64{1, 3, .5, .25, 0, 2, .125, 0}
	mean, variance := make([]float64, 8), make([]float64, 8)
	for j, d := range deviations {
		variance[j] = d * d
	}
	s := newSpace(mean, variance, scaling{true, &Soft{Run: 2, Floors: []float64{0, .75}}})
	for j, d := range deviations {
		added := 2. * 2 // the median of 1, 2, 3
		if j%4 >= 2 {
			added = .25*.25 + .75*.75 // of .125, .25, .5, and the floor
		}
		want := 0.
		if d > 0 {
			want = 1 / math.Sqrt(d*d+added)
		}
		if math.Abs(s.scale[j]-want) > 1e-15 {
			t.Errorf("feature %d, deviation %v: scale %v, want %v", j, d, s.scale[j], want)
		}
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("the median of 1, 2, 3, 4 is %v", got)
	}
}

// TestSoftFit compares scores with a fit to features scaled beforehand, through the kernel and
// through the moments.
func TestSoftFit(t *testing.T) {
	for _, n := range []int{20, 90} {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		const f = 24
		soft := &Soft{Run: 3, Floors: []float64{0, .1}}
		x, labels := make([]float32, n*f), make([]int, n)
		for i := range labels {
			labels[i] = i % 3
			for j := range f {
				x[i*f+j] = float32((rng.NormFloat64() + float64(i%3*j%5)) * math.Pow(10, -float64(j%4)))
			}
		}
		opt := Options{Alphas: []float64{.1}, Standardize: true, Soft: soft}
		got, _, err := Fit(context.Background(), x, labels, classNames(3), opt)
		if err != nil {
			t.Fatal(err)
		}
		tab, err := newTable(&samples{features: f, n: n, x: x}, opt.scaling())
		if err != nil {
			t.Fatal(err)
		}
		scaled := make([]float32, len(x))
		for i := range x {
			scaled[i] = float32((float64(x[i]) - tab.mean[i%f]) * tab.scale[i%f])
		}
		want, _, err := Fit(context.Background(), scaled, labels, classNames(3), Options{Alphas: []float64{.1}})
		if err != nil {
			t.Fatal(err)
		}
		a, b := make([]float32, 3), make([]float32, 3)
		for i := range n {
			got.Scores(a, x[i*f:(i+1)*f])
			want.Scores(b, scaled[i*f:(i+1)*f])
			for k := range a {
				if math.Abs(float64(a[k]-b[k])) > 1e-5 { // float32 features of 1, 24 of them
					t.Fatalf("%d samples: scores %v, want %v", n, a, b)
				}
			}
		}
	}
}

func TestSoftRefusals(t *testing.T) {
	x, labels := []float32{1, 2, 3, 4, 5, 6, 7, 9}, []int{0, 1}
	for want, soft := range map[string]*Soft{
		"of 1 kinds in runs of 3": {Run: 3, Floors: []float64{0}},
		"of 0 kinds":              {Run: 1},
		"runs of 0":               {Floors: []float64{0}},
		"floor -1":                {Run: 1, Floors: []float64{0, -1}},
		"floor NaN":               {Run: 1, Floors: []float64{math.NaN()}},
		"clipped at -1":           {Run: 1, Floors: []float64{0}, Clip: -1},
		"clipped at NaN":          {Run: 1, Floors: []float64{0}, Clip: math.NaN()},
	} {
		_, _, err := Fit(context.Background(), x, labels, classNames(2), Options{Alphas: []float64{1}, Standardize: true, Soft: soft})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
