package readout

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// spread is samples with features of all sizes, of some of which a few are far from
// the others, and one that never varies.
func spread(n, features, classes int) (x []float32, labels []int) {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	x, labels = make([]float32, n*features), make([]int, n)
	for i := range labels {
		labels[i] = i % classes
		for j := range features {
			v := rng.NormFloat64() + float64(labels[i]*j%5)
			if rng.IntN(10) == 0 {
				v *= 8
			}
			x[i*features+j] = float32(v * math.Pow(10, -float64(j%4)))
		}
		x[i*features+2] = 3
	}
	return x, labels
}

// Learning with a clip is learning from features that were centred, scaled and
// clipped beforehand: the same scores, the same leave-one-out. The readout's limits
// are where the clip is; samples that are not kept are not clipped.
func TestClip(t *testing.T) {
	const features, classes, at = 48, 3, 1.5
	for _, n := range []int{30, 90} {
		x, labels := spread(n, features, classes)
		before := slices.Clone(x)
		soft := &Soft{Run: 3, Floors: []float64{0, .1}, Clip: at}
		opt := Options{Standardise: true, Soft: soft, Discriminant: true}
		got, report, err := Fit(context.Background(), x, labels, classNames(classes), opt)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x, before) {
			t.Fatal("the caller's features were changed")
		}
		if n > features {
			soft.Clip = 0
			plain, _, err := Fit(context.Background(), x, labels, classNames(classes), opt)
			if err != nil || got.Limit != nil || !slices.Equal(got.Weights, plain.Weights) {
				t.Errorf("%d samples of %d features: limits %v, or other weights than without a clip (%v)", n, features, got.Limit, err)
			}
			continue
		}
		s, err := newTable(&samples{features: features, n: n, x: x}, scaling{true, &Soft{Run: soft.Run, Floors: soft.Floors}})
		if err != nil {
			t.Fatal(err)
		}
		clipped, beyond := make([]float32, len(x)), 0
		for i := range x {
			z := (float64(x[i]) - s.mean[i%features]) * s.scale[i%features]
			if math.Abs(z) > at {
				beyond++
			}
			clipped[i] = float32(max(-at, min(at, z)))
		}
		if beyond < n || beyond > len(x)/3 {
			t.Fatalf("%d of %d features are beyond the clip", beyond, len(x))
		}
		want, expected, err := Fit(context.Background(), clipped, labels, classNames(classes), Options{Discriminant: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range got.Limit {
			if scale := s.scale[i]; scale > 0 && math.Abs(float64(l)*scale-at) > 1e-6 {
				t.Errorf("feature %d: limit %v at the scale %v", i, l, scale)
			}
		}
		if report.Alpha != expected.Alpha || report.Discriminant != expected.Discriminant || len(report.Trials) != len(expected.Trials) {
			t.Fatalf("chosen: %v, want %v", report, expected)
		}
		for i, trial := range report.Trials {
			// 1e-5: float32 features of about 1, rounded before their scaling here and after it there.
			if w := expected.Trials[i]; math.Abs(trial.Error-w.Error) > 1e-5*(1+w.Error) || trial.Accuracy != w.Accuracy {
				t.Errorf("alpha %v left out: %+v, want %+v", trial.Alpha, trial, w)
			}
		}
		a, b := make([]float32, classes), make([]float32, classes)
		for i := range n {
			got.Scores(a, x[i*features:(i+1)*features])
			want.Scores(b, clipped[i*features:(i+1)*features])
			for k := range a {
				if math.Abs(float64(a[k]-b[k])) > 1e-4*(1+math.Abs(float64(b[k]))) { // as above, by weights of some units
					t.Fatalf("sample %d: scores %v, want %v", i, a, b)
				}
			}
		}
	}
}

func TestLimits(t *testing.T) {
	l := Linear{Name: "l", Classes: []string{"a", "b"}, Center: []float32{1, 1, -1, 0}, Limit: []float32{2, 2, .5, math.MaxFloat32},
		Weights: []float32{1, 10, 100, 1000}, Intercept: []float32{.25}}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	var got [1]float32
	for want, features := range map[float32][]float32{
		.25 + 2 - 20 - 50 + 5000:    {9, -9, -9, 5},
		.25 - 2 + 20 + 50 - 9000:    {-1.0001, 3.0001, -.4999, -9},
		.25 + 1.5 - 15 + 25 + 1000:  {2.5, -.5, -.75, 1},
		.25 + 2 - 20 + 50 + 0*1000:  {3, -1, -.5, 0},
		.25 - 1.5 + 15 - 25 - .5e10: {-.5, 2.5, -1.25, -.5e7},
	} {
		if l.Scores(got[:], features); got[0] != want {
			t.Errorf("features %v: score %v, want %v", features, got[0], want)
		}
	}
	for want, limit := range map[string][]float32{
		"limit for each of 4 features, or none, got 3": {1, 1, 1},
		"limit[1] is 0, want a positive number":        {1, 0, 1, 1},
		"limit[3] is -1, want a positive":              {1, 1, 1, -1},
		"limit[2] is NaN, want a finite":               {1, 1, float32(math.NaN()), 1},
		"limit[0] is +Inf":                             {float32(math.Inf(1)), 1, 1, 1},
	} {
		l.Limit = limit
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
