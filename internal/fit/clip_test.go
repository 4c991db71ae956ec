package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
)

// spread returns samples with features of all sizes, some with a few outliers, and one
// constant feature.
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

// TestClip checks that learning with a clip equals learning from features centered, scaled and
// clipped beforehand: the same scores, the same leave-one-out. The readout's limits are at the
// clip. Tested with up to as many samples as features, and with more.
func TestClip(t *testing.T) {
	const features, classes, at = 48, 3, 1.5
	for _, n := range []int{30, 48, 49, 90} {
		x, labels := spread(n, features, classes)
		before := slices.Clone(x)
		soft := &Soft{Run: 3, Floors: []float64{0, .1}, Clip: at}
		opt := Options{Standardize: true, Soft: soft, Discriminant: true}
		got, report, err := Fit(context.Background(), x, labels, classNames(classes), opt)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x, before) {
			t.Fatal("the caller's features were changed")
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
			// 1e-5: float32 features of about 1, rounded before scaling here and after scaling
			// there.
			if w := expected.Trials[i]; math.Abs(trial.Error-w.Error) > 1e-5*(1+w.Error) || trial.Accuracy != w.Accuracy {
				t.Errorf("alpha %v left out: %+v, want %+v", trial.Alpha, trial, w)
			}
		}
		a, b := make([]float32, classes), make([]float32, classes)
		for i := range n {
			got.Scores(a, x[i*features:(i+1)*features])
			want.Scores(b, clipped[i*features:(i+1)*features])
			for k := range a {
				if math.Abs(float64(a[k]-b[k])) > 1e-4*(1+math.Abs(float64(b[k]))) { // as above, with weights of some units
					t.Fatalf("sample %d: scores %v, want %v", i, a, b)
				}
			}
		}
	}
}

func TestLimits(t *testing.T) {
	l := readout.Linear{Name: "l", Classes: []string{"a", "b"}, Center: []float32{1, 1, -1, 0}, Limit: []float32{2, 2, .5, math.MaxFloat32},
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

// TestLimitsOfBlocksAndParts checks that samples which are not kept are measured first, and
// that only the measures set the limits: the same bits for any blocks and parts. Limits of
// kept samples differ by the rounding of float64 sums.
func TestLimitsOfBlocksAndParts(t *testing.T) {
	const n, features, classes = 900, 48, 3
	x, labels := spread(n, features, classes)
	opt := Options{Standardize: true, Soft: &Soft{Run: 3, Floors: []float64{0, .1}, Clip: 1.5}}
	want, _, err := Fit(context.Background(), x, labels, classNames(classes), opt)
	if err != nil || want.Limit == nil {
		t.Fatal(err, want)
	}
	part := func(from, to int) *Learner { return learned(t, x, labels, classes, opt, from, to) }
	for how, l := range map[string]*Learner{
		"in blocks": part(0, n), "of three parts": merge(t, opt, part(0, 100), part(100, 101), part(101, n)),
	} {
		got, _ := solved(t, l, opt)
		if !slices.Equal(got.Limit, want.Limit) || !slices.Equal(got.Center, want.Center) {
			t.Errorf("%s: other limits", how)
		}
		for i, w := range want.Weights {
			// Parts sum in another order: roundings of float64, times a condition of some
			// thousands.
			if math.Abs(float64(got.Weights[i]-w)) > 1e-6*math.Abs(float64(w))+1e-9 {
				t.Fatalf("%s: weight %d is %v, want %v", how, i, got.Weights[i], w)
			}
		}
	}
	kept, err := newTable(&samples{features: features, n: n, x: x}, opt.scaling())
	if err != nil {
		t.Fatal(err)
	}
	for j, l := range want.Limit {
		if k := kept.space.clip.limit[j]; math.Abs(float64(k-l)) > 1e-6*float64(l) {
			t.Errorf("feature %d: limit %v, of samples that are kept %v", j, l, k)
		}
	}
}

// TestMeasureRefuses checks that calls in a wrong order return an error naming the right call.
func TestMeasureRefuses(t *testing.T) {
	const n, features, classes = 90, 48, 3
	x, labels := spread(n, features, classes)
	opt := Options{Standardize: true, Soft: &Soft{Run: 3, Floors: []float64{0, .1}, Clip: 1.5}}
	open := func(n int, opt Options) *Learner {
		l, err := NewLearner(features, classNames(classes), labels[:n], opt)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	refused(open(40, opt).Measure(x[:features]), "want a plan of two passes")
	refused(open(n, Options{Standardize: true}).Measure(x[:features]), "want a plan of two passes")
	l := open(n, opt)
	refused(l.Add(x[:features]), "0 samples measured, want 90 before the first is added")
	if err := l.Measure(x[:80*features]); err != nil {
		t.Fatal(err)
	}
	refused(l.Add(x[:features]), "80 samples measured, want 90")
	refused(l.Measure(x[:11*features]), "91 samples measured, want 90")
	refused(l.Measure([]float32{float32(math.NaN())}), "1 feature values")
	if err := errors.Join(l.Measure(x[80*features:]), l.Add(x[:features])); err != nil {
		t.Fatal(err)
	}
	refused(l.Measure(x[:0]), "none added")

	whole, plain := learned(t, x, labels, classes, opt, 0, n), opt
	plain.Soft = nil
	_, err := mergeParts(opt, learned(t, x, labels, classes, opt, 0, 45), learned(t, x, labels, classes, plain, 45, n))
	refused(err, "clipped with those of others that are not")
	x[7]++
	_, err = mergeParts(opt, learned(t, x, labels, classes, opt, 0, 45), whole)
	refused(err, "merging samples")
	second := learned(t, x, labels, classes, opt, 45, n)
	x[7]--
	_, err = mergeParts(opt, learned(t, x, labels, classes, opt, 0, 45), second)
	refused(err, "clipped at different limits")
	_, _, err = merge(t, opt, whole).Solve(context.Background(), plain)
	refused(err, "want the options that they were added with")
}
