package fit

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout"
)

// weighted is one case of testdata/weights.json (see make_weights.py).
type weighted struct {
	Name     string
	Features int
	Classes  int
	X        []float32
	Labels   []int
	Groups   []int
	Fits     []struct {
		Weights     []float64 // nil: balanced
		Alpha       float64
		Standardize bool
		Coef        []float64
		Intercept   []float64 // for raw features
		Scores      []float64 // of each sample, refitted without its group
		LOOError    float64   `json:"loo_error"`
	}
}

func weightedCases(t *testing.T) []weighted {
	t.Helper()
	data, err := os.ReadFile("testdata/weights.json")
	if err != nil {
		t.Fatal(err)
	}
	var w []weighted
	if err := json.Unmarshal(data, &w); err != nil {
		t.Fatal(err)
	}
	if len(w) != 7 {
		t.Fatalf("%d cases with weights, want 7", len(w))
	}
	return w
}

// balanced returns weights that count all classes alike.
func balanced(counts []int) []float64 {
	w := make([]float64, len(counts))
	for k, c := range counts {
		w[k] = 1 / float64(c)
	}
	return w
}

// TestClassWeightsAreScikitLearns compares weights and intercept of Fit with scikit-learn's
// RidgeClassifier with class_weight="balanced", or with the weights of samples, and
// leave-one-out with refits without each group, through both systems. 1e-8: two float64
// solvers on matrices of condition up to 1e5; a weight is one rounding to float32 more.
func TestClassWeightsAreScikitLearns(t *testing.T) {
	for _, c := range weightedCases(t) {
		counts := countsOf(c.Labels, c.Classes)
		groups, err := spans(c.Groups, len(c.Labels))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.Fits {
			opt := Options{Alphas: []float64{f.Alpha}, Standardize: f.Standardize, ClassWeights: f.Weights, Coverage: .5, Groups: c.Groups, Discriminant: true}
			if f.Weights == nil {
				opt.ClassWeights = balanced(counts)
			}
			linear, r, err := Fit(context.Background(), c.X, c.Labels, classNames(c.Classes), opt)
			if err != nil {
				t.Fatal(err)
			}
			largest := 0.0
			for _, w := range f.Coef {
				largest = max(largest, math.Abs(w))
			}
			for i, want := range f.Coef {
				if d := math.Abs(float64(linear.Weights[i]) - want); !(d <= float32Half*math.Abs(want)+1e-8*largest) {
					t.Fatalf("%s, alpha %g, weights %v: weight %d is %g, want %g", c.Name, f.Alpha, f.Weights, i, linear.Weights[i], want)
				}
			}
			for col, want := range f.Intercept {
				got, size := float64(linear.Intercept[col]), math.Abs(want)
				for j, v := range linear.Weights[col*c.Features : (col+1)*c.Features] {
					got -= float64(v) * float64(linear.Center[j])
					size += math.Abs(float64(v) * float64(linear.Center[j]))
				}
				if !(math.Abs(got-want) <= (float32Half*4+1e-8)*size) {
					t.Errorf("%s, alpha %g, weights %v: intercept %d is %g, want %g", c.Name, f.Alpha, f.Weights, col, got, want)
				}
			}
			if e := r.Trials[0].Error; r.Discriminant || !(math.Abs(e-f.LOOError) <= 1e-8*f.LOOError) {
				t.Errorf("%s, alpha %g, weights %v: error %.12g, want %.12g (a discriminant: %v)", c.Name, f.Alpha, f.Weights, e, f.LOOError, r.Discriminant)
			}
			weights, err := weightsOf(opt.ClassWeights, classNames(c.Classes), counts)
			if err != nil {
				t.Fatal(err)
			}
			y := newTargets(c.Labels, counts, weights)
			for name, sys := range bothSystems(t, c.X, y, groups, f.Standardize) {
				s, err := sys.solve(context.Background(), f.Alpha, true)
				if err != nil {
					t.Fatal(err)
				}
				v, err := examine(context.Background(), s, y, counts, false)
				if err != nil {
					t.Fatal(err)
				}
				for i := range c.Labels {
					for col, got := range v.ridge.Row(i) {
						if want := f.Scores[i*len(f.Intercept)+col]; !(math.Abs(got-want) <= 1e-8*max(1, math.Abs(want))) {
							t.Fatalf("%s, %s, alpha %g, weights %v: sample %d scores %.12g left out, want %.12g", c.Name, name, f.Alpha, f.Weights, i, got, want)
						}
					}
				}
			}
		}
	}
}

// TestAClassWeightIsACopy: a sample of weight 2 counts as two: integer weights and repeated
// samples give the same readout, with the same leave-one-out. Through Fit and a Learner, kept
// and not, with and without a clip. 1e-6: alpha and the sums are rounded in another order, and
// weights are float32.
func TestAClassWeightIsACopy(t *testing.T) {
	const features, classes = 24, 3
	weights := []float64{1, 3, 2}
	for _, n := range []int{10, 60} { // with copies there are fewer samples than features, or more
		for _, clip := range []float64{0, 1.5} {
			x, labels := spread(n, features, classes)
			var copies []float32
			var copied, groups []int
			for i, l := range labels {
				for range int(weights[l]) {
					copies, copied, groups = append(copies, x[i*features:(i+1)*features]...), append(copied, l), append(groups, i)
				}
			}
			times := float64(len(copied)) / float64(n)
			soft := &Soft{Run: 3, Floors: []float64{0, .1}, Clip: clip}
			opt := Options{Standardize: true, Soft: soft, Coverage: .5}
			opt.Alphas = []float64{3 * times, 30 * times}
			opt.Groups = groups
			want, wr, err := Fit(context.Background(), copies, copied, classNames(classes), opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Alphas, opt.Groups, opt.ClassWeights = []float64{3, 30}, nil, weights
			l := learned(t, x, labels, classes, opt, 0, n)
			for name, solve := range map[string]func() (*readout.Linear, Report, error){
				"fit": func() (*readout.Linear, Report, error) {
					return Fit(context.Background(), x, labels, classNames(classes), opt)
				},
				"learner": func() (*readout.Linear, Report, error) { return l.Solve(context.Background(), opt) },
			} {
				got, r, err := solve()
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(r.Alpha*times-wr.Alpha) > 1e-9*wr.Alpha {
					t.Errorf("%s of %d, clip %v: alpha %v, of copies %v", name, n, clip, r.Alpha, wr.Alpha/times)
				}
				for i, trial := range r.Trials {
					if e := wr.Trials[i].Error; math.Abs(trial.Error-e) > 1e-6*e {
						t.Errorf("%s of %d, clip %v: error %.9g, of copies %.9g", name, n, clip, trial.Error, e)
					}
				}
				a, b := make([]float32, classes), make([]float32, classes)
				for i := range labels {
					got.Scores(a, x[i*features:(i+1)*features])
					want.Scores(b, x[i*features:(i+1)*features])
					for k := range a {
						if math.Abs(float64(a[k]-b[k])) > 1e-5*(1+math.Abs(float64(b[k]))) {
							t.Fatalf("%s of %d, clip %v: sample %d scores %v, of copies %v", name, n, clip, i, a, b)
						}
					}
				}
			}
		}
	}
}

// TestTemperWithWeights compares the temperature of weighted scores with copies, except for
// the doubt, which follows the number of samples: a copy adds no information.
func TestTemperWithWeights(t *testing.T) {
	x, labels := spread(40, 3, 3) // a score of each class
	weights := []float64{1, 3, 2}
	scores, copies := dense.New(40, 3), dense.Matrix{Cols: 3, Stride: 3}
	for i := range scores.Data {
		scores.Data[i] = float64(x[i])
	}
	var copied []int
	for i, l := range labels {
		for range int(weights[l]) {
			copies.Data, copied = append(copies.Data, scores.Row(i)...), append(copied, l)
		}
	}
	copies.Rows = len(copied)
	tau, loss := temper(scores, labels, weights, .02)
	if want, least := temper(copies, copied, nil, .02); tau != want || math.Abs(loss-least) > 1e-12*least {
		t.Errorf("scale %v with loss %v, of copies %v and %v", tau, loss, want, least)
	}
	if plain, _ := temper(scores, labels, nil, .02); plain == tau {
		t.Errorf("weights change nothing: %v", tau)
	}
}

// TestEqualClassWeightsAreNone: equal weights, in any unit, equal no weights.
func TestEqualClassWeightsAreNone(t *testing.T) {
	for _, n := range []int{20, 60} {
		x, labels := spread(n, 24, 3)
		opt := Options{Standardize: true}
		want, _, err := Fit(context.Background(), x, labels, classNames(3), opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.ClassWeights = []float64{8, 8, 8}
		got, _, err := Fit(context.Background(), x, labels, classNames(3), opt)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Weights, want.Weights) || !slices.Equal(got.Intercept, want.Intercept) || got.Temperature != want.Temperature {
			t.Errorf("%d samples: another readout", n)
		}
	}
}

// TestPriorsBesideClassWeights: priors undo weights: the training's own shares as priors move
// the probabilities of a weighted readout back, by a number added to each score.
func TestPriorsBesideClassWeights(t *testing.T) {
	x, labels := spread(60, 24, 3)
	weights := []float64{1, 4, 2}
	opt := Options{Standardize: true, ClassWeights: weights}
	plain, r, err := Fit(context.Background(), x, labels, classNames(3), opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Priors = []float64{1, 1, 1} // 20 samples each
	got, _, err := Fit(context.Background(), x, labels, classNames(3), opt)
	if err != nil {
		t.Fatal(err)
	}
	for k := range weights {
		add := float64(got.Intercept[k]-got.Intercept[0]) - float64(plain.Intercept[k]-plain.Intercept[0])
		// 1e-6: the intercepts are float32.
		if want := -math.Log(weights[k]/weights[0]) / r.Temperature; math.Abs(add-want) > 1e-6*(1+math.Abs(want)) {
			t.Errorf("class %d: %g is added, want %g", k, add, want)
		}
	}
}

func TestClassWeightsRefused(t *testing.T) {
	x, labels := spread(60, 24, 3)
	fit := func(w ...float64) error {
		_, _, err := Fit(context.Background(), x, labels, classNames(3), Options{ClassWeights: w})
		return err
	}
	part := func() error {
		_, err := NewPart(24, classNames(3), labels, 0, 30, Options{ClassWeights: []float64{1, 2, 3}})
		return err
	}
	opt := Options{ClassWeights: []float64{1, 2, 3}}
	l := learned(t, x, labels, 3, opt, 0, 60)
	for want, err := range map[string]error{
		"2 class weights, want one for each of 3":        fit(1, 2),
		`the weight of class "class 1" is 0,`:            fit(1, 0, 1),
		`the weight of class "class 2" is NaN`:           fit(1, 1, math.NaN()),
		`the weight of class "class 0" is +Inf`:          fit(math.Inf(1), 1, 1),
		`the weight of class "class 0" is 1.5e-12 times`: fit(1e-12, 1, 1),
		"want all samples in one part":                   part(),
		"the format has no place for them":               l.Encode(io.Discard),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
