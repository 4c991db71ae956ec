package fit

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout"
)

// numbersReference is one case of testdata/numbers.json (see make_numbers.py).
type numbersReference struct {
	Name            string
	Level           float64
	Alphas, Numbers []float64
	Each, Threes    struct {
		Alpha, Low, High, RMSE, MAE, Bias, R2, Coverage float64
		Value                                           []float64
	}
}

// TestNumbersAreThoseOfRefits compares alpha, interval, errors and values with refits without
// each sample, or without each group of three, in both forms of the solver, from memory and
// through a Learner. Weights and values are float32 sums of up to 1,100 terms about numbers of
// 10: 1e-3 leaves room; float64 results agree to 1e-6.
func TestNumbersAreThoseOfRefits(t *testing.T) {
	data, err := os.ReadFile("testdata/numbers.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []numbersReference
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	cases := references(t)
	if len(want) != len(cases) {
		t.Fatalf("%d reference cases, want %d", len(want), len(cases))
	}
	kernels := map[bool]int{}
	for i, c := range cases {
		n := len(c.Labels)
		threes, labels := make([]int, n), make([]int, n)
		for k := range threes {
			threes[k] = k / 3
		}
		for name, groups := range map[string][]int{"each": nil, "threes": threes} {
			w := want[i].Each
			if groups != nil {
				w = want[i].Threes
			}
			opt := Options{Alphas: want[i].Alphas, Standardize: true, Discriminant: true, Coverage: want[i].Level, Numbers: want[i].Numbers, Groups: groups}
			l, r, err := Fit(context.Background(), c.X, labels, []string{"life"}, opt)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.Name, name, err)
			}
			kernels[r.Kernel]++
			got := r.Numbers
			for what, v := range map[string][2]float64{
				"alpha": {r.Alpha, w.Alpha}, "rmse": {got.RMSE, w.RMSE}, "mae": {got.MAE, w.MAE}, "bias": {got.Bias, w.Bias},
				"R2": {*got.R2, w.R2}, "coverage": {got.Coverage, w.Coverage}, "level": {l.Interval.Level, want[i].Level},
				"low": {float64(l.Interval.Low), w.Low}, "high": {float64(l.Interval.High), w.High}, "width": {got.Width, w.High - w.Low},
			} {
				if !(math.Abs(v[0]-v[1]) <= 1e-6*max(1, math.Abs(v[1]))) {
					t.Errorf("%s, %s: %s is %v, want %v", c.Name, name, what, v[0], v[1])
				}
			}
			if float64(l.Interval.Low) > w.Low+1e-9 || float64(l.Interval.High) < w.High-1e-9 {
				t.Errorf("%s, %s: the interval %v is rounded inwards of %v to %v", c.Name, name, *l.Interval, w.Low, w.High)
			}
			scores := make([]float32, 1)
			for k, v := range w.Value {
				l.Scores(scores, c.X[k*l.Features():])
				value, low, high := l.Number(scores)
				if !(math.Abs(float64(value)-v) <= 1e-3) || low != value+l.Interval.Low || high != value+l.Interval.High || l.Class(scores) != 0 || l.Probability(scores) != 0 {
					t.Errorf("%s, %s: sample %d: value %v from %v to %v, want %v", c.Name, name, k, value, low, high, v)
				}
			}
			again := inPieces(t, c.X, labels, opt)
			if r.Kernel && !slices.Equal(again.Weights, l.Weights) || *again.Interval != *l.Interval || again.Intercept[0] != l.Intercept[0] {
				t.Errorf("%s, %s: a Learner learns other numbers", c.Name, name)
			}
		}
	}
	if kernels[true] == 0 || kernels[false] == 0 {
		t.Errorf("through the kernel and not: %v, want both", kernels)
	}
}

// inPieces returns a Learner's readout of samples added in pieces.
func inPieces(t *testing.T, x []float32, labels []int, opt Options) *readout.Linear {
	t.Helper()
	f := len(x) / len(labels)
	l, err := NewLearner(f, []string{"life"}, labels, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for from := 0; from < len(labels); from += 7 {
		if err := l.Add(x[from*f : min(len(labels), from+7)*f]); err != nil {
			t.Fatal(err)
		}
	}
	linear, _, err := l.Solve(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return linear
}

// TestNumbersAreRefused checks that input without a possible regression returns an error, and
// that no classes are learned instead.
func TestNumbersAreRefused(t *testing.T) {
	x, labels := blobs(60, 5, 2)
	clear(labels)
	numbers := make([]float64, len(labels))
	for i := range numbers {
		numbers[i] = float64(i)
	}
	with := func(i int, v float64) []float64 {
		n := slices.Clone(numbers)
		n[i] = v
		return n
	}
	one := []string{"life"}
	for want, c := range map[string]struct {
		numbers []float64
		names   []string
		opt     Options
	}{
		"59 numbers, want one for each of 60 samples":    {numbers[1:], one, Options{Coverage: .9}},
		"numbers with 2 names, want one":                 {numbers, []string{"a", "b"}, Options{Coverage: .9}},
		"numbers without a coverage":                     {numbers, one, Options{}},
		"numbers with priors, class weights":             {numbers, one, Options{Coverage: .9, Priors: []float64{1}}},
		"a coverage by class or a largest error":         {numbers, one, Options{Coverage: .9, ClassWeights: []float64{1}}},
		"sample 3: number NaN":                           {with(3, math.NaN()), one, Options{Coverage: .9}},
		"sample 4: number +Inf":                          {with(4, math.Inf(1)), one, Options{Coverage: .9}},
		"sample 5: number -1e+31":                        {with(5, -1e31), one, Options{Coverage: .9}},
		"all 60 numbers are [0]: there is nothing":       {make([]float64, 60), one, Options{Coverage: .9}},
		"coverage 0.99 needs at least 199 samples to be": {numbers, one, Options{Coverage: .99}},
	} {
		c.opt.Numbers = c.numbers
		if _, _, err := Fit(context.Background(), x, labels, c.names, c.opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	opt := Options{Coverage: .9, Numbers: numbers}
	if _, err := NewPart(5, one, labels, 0, 30, opt); err == nil || !strings.Contains(err.Error(), "want all samples in one part") {
		t.Errorf("a part: %v", err)
	}
	l, err := NewLearner(5, one, labels, opt)
	if err == nil {
		err = l.Add(x)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Encode(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "want classes") {
		t.Errorf("statistics: %v", err)
	}
}

// TestIntervalSides: on each side an interval leaves out its share of one more sample in any
// order with the others: with n residuals, all different, exactly k are at or below low and as
// many at or above high.
func TestIntervalSides(t *testing.T) {
	for _, n := range []int{39, 40, 199, 1000} {
		numbers, scores := make([]float64, n), dense.New(n, 1)
		for i := range numbers {
			numbers[i] = math.Sin(float64(i*i)) * 1e6
		}
		v, err := newInterval(.95, targets{numbers: numbers, labels: make([]int, n), n: n}, scores)
		if err != nil {
			t.Fatal(err)
		}
		k, below, above := int(.025*float64(n+1)+1e-9), 0, 0
		for _, r := range numbers {
			if r <= float64(v.Low)+.1 { // for a float32 near 1e6
				below++
			}
			if r >= float64(v.High)-.1 {
				above++
			}
		}
		if below != k || above != k {
			t.Errorf("%d residuals: %d and %d beyond the interval, want %d", n, below, above, k)
		}
	}
	if _, err := newInterval(.95, targets{numbers: make([]float64, 38)}, dense.New(38, 1)); err == nil {
		t.Error("38 residuals have an interval at 0.95")
	}
}
