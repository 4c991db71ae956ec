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

	"github.com/eusn-stream/eusn-stream/internal/quality"
)

// outerCase is one case of testdata/groups.json (see make_groups.py).
type outerCase struct {
	Name     string
	Features int
	Classes  int
	X        []float32
	Labels   []int
	Groups   []int
	Outer    []int
	Fits     []struct {
		Alpha        float64
		Standardize  bool
		Error        float64
		Ridge        outerWant
		Discriminant outerWant
	}
}

type outerWant struct {
	Correct map[int]int
	Plain   float64
}

func outerCases(t *testing.T) []outerCase {
	t.Helper()
	data, err := os.ReadFile("testdata/groups.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []outerCase
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 6 {
		t.Fatalf("%d reference cases, want 6", len(all))
	}
	return all
}

// check compares a report with the refits. Counts of samples are equal: any two scores of a
// sample differ by more than the solvers' rounding.
func (w outerWant) check(t *testing.T, o *OuterReport, n int) {
	t.Helper()
	sum, mean := 0, 0.0
	for _, g := range o.Groups {
		if g.Correct != w.Correct[g.Group] {
			t.Errorf("group %d: %d of %d right, refitting without it gives %d", g.Group, g.Correct, g.Samples, w.Correct[g.Group])
		}
		sum += g.Correct
		mean += g.Accuracy() / float64(len(w.Correct))
	}
	// 1e-12: sums of a few quotients.
	if len(o.Groups) != len(w.Correct) || math.Abs(o.Accuracy-float64(sum)/float64(n)) > 1e-12 || math.Abs(o.Mean-mean) > 1e-12 || math.Abs(o.Plain-w.Plain) > 1e-12 {
		t.Errorf("%d groups, accuracy %g, mean %g, plain %g, want %d, %g, %g, %g", len(o.Groups), o.Accuracy, o.Mean, o.Plain, len(w.Correct), float64(sum)/float64(n), mean, w.Plain)
	}
}

// TestOuterGroupsAreRefitting compares outer groups with real fits without each group: for one
// alpha, and for the chosen alpha and kind, through both systems, with unsorted samples.
func TestOuterGroupsAreRefitting(t *testing.T) {
	for _, c := range outerCases(t) {
		n := len(c.Labels)
		for _, standardize := range []bool{false, true} {
			opt := Options{Standardize: standardize, Discriminant: true, Groups: c.Groups, Outer: c.Outer}
			for _, f := range c.Fits {
				if f.Standardize == standardize {
					opt.Alphas = append(opt.Alphas, f.Alpha)
				}
			}
			name := c.Name + map[bool]string{true: ", standardized"}[standardize]
			_, r := solved(t, learned(t, c.X, c.Labels, c.Classes, opt, 0, n), Options{Alphas: opt.Alphas, Standardize: standardize, Discriminant: true})
			if r.Outer == nil || r.Groups != len(c.Fits[0].Ridge.Correct) || len(r.Trials) != 3 {
				t.Fatalf("%s: %+v", name, r)
			}
			for i, f := range c.Fits {
				if f.Standardize != standardize {
					continue
				}
				trial := r.Trials[i%3]
				// 1e-8: two solvers on matrices of condition up to 1e5.
				if trial.Alpha != f.Alpha || math.Abs(trial.Error-f.Error) > 1e-8*f.Error {
					t.Errorf("%s: alpha %g has error %.12g, want %g with %.12g", name, trial.Alpha, trial.Error, f.Alpha, f.Error)
				}
				one := opt
				one.Alphas = []float64{f.Alpha}
				_, given := solved(t, learned(t, c.X, c.Labels, c.Classes, one, 0, n), Options{Alphas: one.Alphas, Standardize: standardize, Discriminant: true})
				if given.Discriminant || !strings.HasPrefix(given.String(), map[float64]string{.1: "0.1", 3: "3", 100: "100"}[f.Alpha]+", given, and tried by leaving out each of ") {
					t.Errorf("%s: one alpha: %s", name, given)
				}
				f.Ridge.check(t, given.Outer, n)
				if f.Alpha == r.Alpha && r.Discriminant {
					f.Discriminant.check(t, r.Outer, n)
				} else if f.Alpha == r.Alpha {
					f.Ridge.check(t, r.Outer, n)
				}
			}
			t.Logf("%s: %s; mean %.3f, plain %.3f", name, r, r.Outer.Mean, r.Outer.Plain)
		}
	}
}

// TestOuterGroupsOfOneAreLeaveOneOut: Fit takes outer groups of adjacent samples. If each
// sample is an outer group, the result is plain leave-one-out, to the bit.
func TestOuterGroupsOfOneAreLeaveOneOut(t *testing.T) {
	for _, d := range [][2]int{{60, 90}, {90, 20}} {
		x, labels := blobs(d[0], d[1], 3)
		each := make([]int, d[0])
		for i := range each {
			each[i] = i
		}
		opt := Options{Standardize: true, Discriminant: true}
		want, plain, err := Fit(context.Background(), x, labels, classNames(3), opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Outer = each
		got, r, err := Fit(context.Background(), x, labels, classNames(3), opt)
		if err != nil {
			t.Fatal(err)
		}
		accuracy, _ := plain.LeftOut()
		if !slices.Equal(got.Weights, want.Weights) || r.Outer.Accuracy != accuracy || r.Outer.Plain != accuracy || len(r.Outer.Groups) != d[0] {
			t.Errorf("%d samples: accuracy %g, plain %g, of %d groups, want %g of each, and the same weights", d[0], r.Outer.Accuracy, r.Outer.Plain, len(r.Outer.Groups), accuracy)
		}
	}
}

func TestOuterGroupsRefuse(t *testing.T) {
	x, labels := blobs(6, 3, 2)
	for what, opt := range map[string]Options{
		"outer groups of 2 samples":                       {Outer: []int{1, 2}},
		"group 7 has samples of the outer groups 1 and 2": {Outer: []int{1, 1, 1, 2, 2, 2}, Groups: []int{5, 5, 7, 7, 8, 8}},
		"all samples are of one group":                    {Outer: []int{5, 5, 5, 5, 5, 5}, Alphas: []float64{1}},
	} {
		_, _, err := Fit(context.Background(), x, labels, classNames(2), opt)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("Fit: got %v, want %q", err, what)
		}
	}
	opt := Options{Outer: []int{1, 1, 1, 2, 2, 2}}
	if _, err := NewPart(3, classNames(2), labels, 0, 4, opt); err == nil || !strings.Contains(err.Error(), "want all samples in one part") {
		t.Errorf("a part: %v", err)
	}
	l := learned(t, x, labels, 2, opt, 0, 6)
	if err := l.Encode(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "no place for them") {
		t.Errorf("encoded: %v", err)
	}
}

// TestQualityIsOfWhatIsLeftOut compares the reported quality with scores of readouts refitted
// without each sample, or without each outer group, at the readout's temperature.
func TestQualityIsOfWhatIsLeftOut(t *testing.T) {
	for _, c := range [][3]int{{40, 45, 4}, {40, 45, 2}, {60, 20, 3}, {60, 20, 2}} {
		n, f, classes := c[0], c[1], c[2]
		x, labels := blobs(n, f, classes)
		unequal(labels, classes)
		z := standardized(t, x, n)
		y := newTargets(labels, countsOf(labels, classes), nil)
		for _, outer := range [][]int{nil, grouped(n)} {
			linear, r, err := Fit(context.Background(), x, labels, classNames(classes), Options{Standardize: true, Alphas: []float64{1, 10, 100}, Outer: outer})
			if err != nil {
				t.Fatal(err)
			}
			var scores []float64
			for i := range labels {
				var others [][]float64
				var left []int
				for j := range labels {
					if j != i && (outer == nil || outer[j] != outer[i]) {
						others, left = append(others, z[j]), append(left, labels[j])
					}
				}
				if classes == 2 {
					scores = append(scores, 0)
				}
				scores = append(scores, refitted(t, others, left, y, r.Alpha, z[i])...)
			}
			want, err := quality.New(classNames(classes), labels, scores, linear.Temperature)
			if err != nil {
				t.Fatal(err)
			}
			got := r.Quality
			accuracy, _ := r.LeftOut()
			right := 0
			for k, one := range got.Classes {
				right += one.Right
				w := want.Classes[k]
				if one.Samples != w.Samples || one.Predicted != w.Predicted || one.Right != w.Right || math.Abs(*one.AUROC-*w.AUROC) > 1e-9 {
					t.Errorf("%v: class %d: %+v, refitting gives %+v", c, k, one, w)
				}
			}
			// 1e-7: the scores' 1e-8, times a temperature of a few.
			if math.Abs(*got.LogLoss-*want.LogLoss) > 1e-7 || math.Abs(*got.ECE-*want.ECE) > 1e-7 || math.Abs(accuracy-float64(right)/float64(n)) > 1e-12 {
				t.Errorf("%v: log-loss %g, calibration error %g, accuracy %g of %d right, refitting gives %g and %g", c, *got.LogLoss, *got.ECE, accuracy, right, *want.LogLoss, *want.ECE)
			}
		}
	}
	x, labels := blobs(20, 5, 2)
	if _, r, err := Fit(context.Background(), x, labels, classNames(2), Options{Alphas: []float64{1}}); err != nil || r.Quality != nil {
		t.Errorf("nothing was left out: %+v, %v", r.Quality, err)
	}
}
