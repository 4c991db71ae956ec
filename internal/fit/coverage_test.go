package fit

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/abstain"
	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/exact"
	"github.com/eusn-stream/eusn-stream/internal/quality"
	"github.com/eusn-stream/eusn-stream/readout"
)

// setsReference is one case of testdata/sets.json (see make_sets.py).
type setsReference struct {
	Name               string
	Level, Temperature float64
	Priors             []float64
	Plain, Prior       struct {
		All       float64
		Classes   []float64
		Predicted []int
	}
}

// TestSetsAreThoseOfRefits compares temperature, thresholds and priors with refits without
// each sample, in both forms of the solver. The temperature is rounded to a grid of 1024 an
// octave, below the best: one part in a thousand. A probability p moves by at most p (1-p)
// log(p/(1-p)), below a quarter, times this part; 2e-3 leaves room for several classes.
func TestSetsAreThoseOfRefits(t *testing.T) {
	data, err := os.ReadFile("testdata/sets.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []setsReference
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	cases := references(t)
	if len(want) != len(cases) {
		t.Fatalf("%d reference cases, want %d", len(want), len(cases))
	}
	for i, c := range cases {
		w := want[i]
		for _, priors := range [][]float64{nil, w.Priors} {
			wanted := w.Plain
			if priors != nil {
				wanted = w.Prior
			}
			for _, byClass := range []bool{false, true} {
				opt := Options{Alphas: []float64{1}, Standardize: true, Coverage: w.Level, CoverageByClass: byClass, Priors: priors}
				l, r, err := Fit(context.Background(), c.X, c.Labels, classNames(c.Classes), opt)
				if err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
				if e := math.Abs(l.Temperature/w.Temperature - 1); e > 2e-3 {
					t.Errorf("%s: temperature %v, want %v", c.Name, l.Temperature, w.Temperature)
				}
				for k, least := range l.Coverage.Least {
					wants := wanted.All
					if byClass {
						wants = wanted.Classes[k]
					}
					if math.Abs(least-wants) > 2e-3 {
						t.Errorf("%s, by class %v, priors %v: threshold %d is %v, want %v", c.Name, byClass, priors, k, least, wants)
					}
				}
				right := 0
				for k, p := range wanted.Predicted {
					if p == c.Labels[k] {
						right++
					}
				}
				got := 0
				for _, class := range r.Quality.Classes {
					got += class.Right
				}
				if got != right {
					t.Errorf("%s, priors %v: %d right in leave-one-out, want %d", c.Name, priors, got, right)
				}
				if held := r.Sets.Coverage; held < w.Level {
					t.Errorf("%s: coverage %v of the samples that the thresholds come of, want %v at least", c.Name, held, w.Level)
				}
			}
		}
	}
}

// TestSetsAndPriorsLeaveTheRest checks that sets change only the thresholds, and priors only
// the intercept: all other bits are the same.
func TestSetsAndPriorsLeaveTheRest(t *testing.T) {
	for _, classes := range []int{2, 3} {
		x, labels := blobs(80, 10, classes)
		fit := func(opt Options) *readout.Linear {
			opt.Standardize, opt.Discriminant = true, true
			l, _, err := Fit(context.Background(), x, labels, classNames(classes), opt)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		plain, sets := fit(Options{}), fit(Options{Coverage: .9})
		priors := fit(Options{Priors: []float64{5, 1, 2}[:classes]})
		if !slices.Equal(plain.Weights, sets.Weights) || !slices.Equal(plain.Intercept, sets.Intercept) || plain.Temperature != sets.Temperature || plain.Coverage != nil {
			t.Errorf("%d classes: a readout with sets has other numbers", classes)
		}
		if !slices.Equal(plain.Weights, priors.Weights) || plain.Temperature != priors.Temperature || slices.Equal(plain.Intercept, priors.Intercept) {
			t.Errorf("%d classes: priors changed more or less than the intercept", classes)
		}
	}
}

// TestQualityOfADiscriminant checks that leave-one-out probabilities are at the readout's
// scale: their log-loss is at least, and not far above, the trial's, which is the minimum
// without doubt of the labels.
func TestQualityOfADiscriminant(t *testing.T) {
	x, labels := blobs(90, 10, 3)
	for i := range labels { // three classes on a line: no ridge classifier separates the middle class
		x[10*i] += float32(3 * labels[i])
	}
	_, r, err := Fit(context.Background(), x, labels, classNames(3), Options{Standardize: true, Discriminant: true, Alphas: []float64{1, 1e3}})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Discriminant {
		t.Fatal("the ridge classifier was taken")
	}
	for _, trial := range r.Trials {
		if trial.Alpha != r.Alpha {
			continue
		}
		if least, got := trial.Discriminant.LogLoss, *r.Quality.LogLoss; got < least-1e-9 || got > least+.02 {
			t.Errorf("log-loss %v, that of the trial is %v", got, least)
		}
	}
}

// TestCoverageOfNewSamples checks the coverage of new samples of the same distribution: 4,000
// samples, whose share has a deviation of .005, and thresholds of 400 samples, whose coverage
// has a deviation of .015 (a beta distribution); by class, of 133, .026. Three deviations.
func TestCoverageOfNewSamples(t *testing.T) {
	x, labels := blobs(4400, 12, 3)
	const learned = 400
	for _, opt := range []Options{{Coverage: .9}, {Coverage: .9, CoverageByClass: true}} {
		opt.Standardize = true
		l, _, err := Fit(context.Background(), x[:learned*12], labels[:learned], classNames(3), opt)
		if err != nil {
			t.Fatal(err)
		}
		scores := make([]float32, 3)
		s, err := quality.OfSets(l.Classes, labels[learned:], func(i int) []int32 {
			l.Scores(scores, x[(learned+i)*12:][:12])
			return l.AppendSet(nil, scores)
		})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(s.Coverage-.9) > .05 || s.Size < 1 || s.Size > 2 {
			t.Errorf("%+v: coverage %v, %v classes in the mean", opt, s.Coverage, s.Size)
		}
		for _, c := range s.Classes {
			if opt.CoverageByClass && math.Abs(*c.Coverage-.9) > .08 {
				t.Errorf("class %s: coverage %v", c.Class, *c.Coverage)
			}
		}
	}
}

func TestCoverageRefuses(t *testing.T) {
	x, labels := blobs(30, 4, 2)
	for want, opt := range map[string]Options{
		"coverage 1, want a share above 0 and below 1": {Coverage: 1},
		"coverage NaN": {Coverage: math.NaN()},
		"3 priors, want one for each of 2 classes":                  {Priors: []float64{1, 1, 1}},
		`the prior of class "class 1" is 0, want a positive number`: {Priors: []float64{1, 0}},
		`the prior of class "class 0" is +Inf`:                      {Priors: []float64{math.Inf(1), 1}},
	} {
		if _, _, err := Fit(context.Background(), x, labels, classNames(2), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, _, err := Fit(context.Background(), x, labels, classNames(3), Options{Priors: []float64{1, 1, 1}}); err == nil || !strings.Contains(err.Error(), `class "class 2" has no sample`) {
		t.Errorf("a prior of a class without a sample: %v", err)
	}
	if _, _, err := newCoverage(.9, false, classNames(2), []int{0}, dense.New(1, 2), 0); err == nil {
		t.Error("no temperature to learn thresholds at")
	}
	sums, err := exact.NewSums(4, 2)
	if err == nil {
		err = sums.Add(x, labels)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := SolveSums(context.Background(), sums, classNames(2), Kept{}, Options{Alphas: []float64{1}, Coverage: .9}); err == nil || !strings.Contains(err.Error(), "neither coverage, a largest error nor priors") {
		t.Errorf("sums without a sample that is kept: %v", err)
	}
}

// TestThresholdIsExact: in any order each of n + 1 values is equally likely the last. So the
// last is at least the threshold of the n others for n + 1 - k of n + 1, k being rounded down:
// exactly, or more often if some are equal. In whole percent, k comes from whole numbers.
func TestThresholdIsExact(t *testing.T) {
	for _, percent := range []int{5, 50, 80, 90, 95, 99} {
		for n := 1; n <= 120; n++ {
			for _, equal := range []int{1, 4} {
				values, held := make([]float64, n+1), 0
				for i := range values {
					values[i] = float64(i/equal+1) / float64(n+2)
				}
				for last, v := range values {
					if v >= threshold(slices.Delete(slices.Clone(values), last, last+1), float64(percent)/100) {
						held++
					}
				}
				want := n + 1 - (100-percent)*(n+1)/100
				if held < want || equal == 1 && held != want {
					t.Errorf("%d %% of %d values, %d equal: %d are held, want %d", percent, n+1, equal, held, want)
				}
			}
		}
	}
}

// TestEnough: at .95, one of 19 samples may be left out; of fewer, none.
func TestEnough(t *testing.T) {
	for level, want := range map[float64]int{.95: 19, .9: 9, .5: 1, .99: 99, .2: 1} {
		if got := Enough(level); got != want {
			t.Errorf("at %v %d are enough, want %d", level, got, want)
		}
		if v := threshold(slices.Repeat([]float64{.5}, want), level); v != .5 {
			t.Errorf("threshold of %d at %v is %v", want, level, v)
		}
		if want > 1 && threshold(slices.Repeat([]float64{.5}, want-1), level) != 0 {
			t.Errorf("threshold of %d at %v is above 0", want-1, level)
		}
	}
}

// TestAbstainOfLeaveOneOut checks that the threshold follows from leave-one-out probabilities
// and errors: the result of abstain.Learn for Report.Left. The rest of the readout does not
// change.
func TestAbstainOfLeaveOneOut(t *testing.T) {
	for _, classes := range []int{2, 3} {
		x, labels := blobs(300, 10, classes)
		fit := func(opt Options) (*readout.Linear, Report) {
			opt.Standardize = true
			l, r, err := Fit(context.Background(), x, labels, classNames(classes), opt)
			if err != nil {
				t.Fatal(err)
			}
			return l, r
		}
		plain, left := fit(Options{Left: true})
		l, r := fit(Options{MaxError: .15, Confidence: .9})
		var p []float32
		var right []bool
		scores := make([]float32, plain.Columns())
		for i := range labels {
			row := left.Left.Scores.Row(i)
			for k := range scores {
				scores[k] = float32(row[len(row)-len(scores)+k])
			}
			p, right = append(p, plain.Probability(scores)), append(right, plain.Class(scores) == labels[i])
		}
		rule, count, err := abstain.Learn(.15, .9, classes, p, right)
		if err != nil {
			t.Fatal(err)
		}
		if *l.Abstain != *rule || r.Answers.Answered != count.Answered || r.Answers.Wrong != count.Wrong || count.Answered == 0 || count.Answered == 300 {
			t.Errorf("%d classes: %+v, %+v; want %+v, %+v, some answered", classes, l.Abstain, r.Answers, rule, count)
		}
		if at := float32(rule.Above); l.Abstains(math.Nextafter32(at, 2)) || !l.Abstains(math.Nextafter32(at, 0)) || plain.Abstains(0) {
			t.Error("abstains on the other side of the threshold")
		}
		l.Abstain = nil
		if !reflect.DeepEqual(l, plain) {
			t.Errorf("%d classes: a largest error changes more than the threshold", classes)
		}
	}
}

func TestAbstainRefuses(t *testing.T) {
	x, labels := blobs(30, 4, 2)
	for want, opt := range map[string]Options{
		"a largest error of 1":        {MaxError: 1, Confidence: .9},
		"confidence 0, want":          {MaxError: .1},
		"a largest error, and priors": {MaxError: .15, Confidence: .9, Priors: []float64{1, 2}},
	} {
		if _, _, err := Fit(context.Background(), x, labels, classNames(2), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	numbers := Options{MaxError: .15, Confidence: .9, Numbers: make([]float64, 30), Coverage: .9}
	if _, _, err := Fit(context.Background(), x, make([]int, 30), []string{"n"}, numbers); err == nil || !strings.Contains(err.Error(), "or a largest error: there are no classes") {
		t.Errorf("numbers: %v", err)
	}
	if _, _, err := newAbstain(.1, .9, []int{0}, dense.New(1, 2), 0); err == nil {
		t.Error("no temperature to learn a threshold at")
	}
}
