package fit

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
)

// reference is one case of testdata/reference.json (see make_reference.py).
type reference struct {
	Name     string
	Features int
	Classes  int
	X        []float32
	Labels   []int
	Fits     []struct {
		Alpha       float64
		Standardize bool
		Coef        []float64
		Intercept   []float64 // for raw features
		Decision    []float64 // for the training samples
		LOOError    float64   `json:"loo_error"`
		LOOAccuracy float64   `json:"loo_accuracy"`
	}
}

func references(t *testing.T) []reference {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r []reference
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if len(r) != 7 {
		t.Fatalf("%d reference cases, want 7", len(r))
	}
	return r
}

// names makes class labels.
func classNames(n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = "class " + strconv.Itoa(i)
	}
	return s
}

// float32Half is the relative error of one rounding to float32.
const float32Half = 0x1p-24

// checkReadout compares a readout through its weights, one rounding to float32 each plus 1e-9
// for two float64 solvers on matrices of condition up to about 1e6, and through its training
// scores.
func checkReadout(t *testing.T, linear *readout.Linear, r reference, coef, decision []float64) {
	t.Helper()
	largest := 0.0
	for _, w := range coef {
		largest = max(largest, math.Abs(w))
	}
	for i, want := range coef {
		if d := math.Abs(float64(linear.Weights[i]) - want); !(d <= float32Half*math.Abs(want)+1e-9*largest) {
			t.Fatalf("weight %d: got %g, want %g", i, linear.Weights[i], want)
		}
	}
	scores := make([]float32, linear.Columns())
	for i := range r.Labels {
		x := r.X[i*r.Features : (i+1)*r.Features]
		linear.Scores(scores, x)
		for c, s := range scores {
			// Per feature: the roundings of the weight, the center, the difference and the
			// chain (growing with its length).
			bound := 1e-9
			for j, w := range linear.Weights[c*r.Features : (c+1)*r.Features] {
				bound += math.Abs(float64(w)*float64(x[j]-linear.Center[j])) * float32Half * float64(r.Features+3)
			}
			bound += math.Abs(float64(linear.Intercept[c])) * float32Half * float64(r.Features+1)
			if want := decision[i*len(scores)+c]; !(math.Abs(float64(s)-want) <= bound) {
				t.Fatalf("sample %d column %d: score %g, want %g within %g", i, c, s, want, bound)
			}
		}
	}
}

func TestFitIsScikitLearns(t *testing.T) {
	for _, r := range references(t) {
		for _, f := range r.Fits {
			t.Run(r.Name+"/"+strconv.FormatBool(f.Standardize)+"/"+strconv.FormatFloat(f.Alpha, 'g', -1, 64), func(t *testing.T) {
				linear, _, err := Fit(context.Background(), r.X, r.Labels, classNames(r.Classes), Options{Alphas: []float64{f.Alpha}, Standardize: f.Standardize})
				if err != nil {
					t.Fatal(err)
				}
				checkReadout(t, linear, r, f.Coef, f.Decision)
			})
		}
	}
}

func TestMomentsAreScikitLearns(t *testing.T) {
	for _, r := range references(t) {
		for _, f := range r.Fits {
			t.Run(r.Name+"/"+strconv.FormatBool(f.Standardize)+"/"+strconv.FormatFloat(f.Alpha, 'g', -1, 64), func(t *testing.T) {
				j := job{classes: classNames(r.Classes), opt: Options{Alphas: []float64{f.Alpha}, Standardize: f.Standardize, Progress: func(float64) {}}}
				linear, _, err := j.throughMoments(context.Background(), sums{all: momentsOf(r, 0, len(r.Labels))})
				if err != nil {
					t.Fatal(err)
				}
				checkReadout(t, linear, r, f.Coef, f.Decision)
			})
		}
	}
}

// bothSystems solves the same problem through the kernel and the moments, for single samples
// or groups.
func bothSystems(t *testing.T, x []float32, y targets, groups []span, standardize bool) map[string]system {
	t.Helper()
	all := &samples{features: len(x) / y.n, n: y.n, x: x}
	if y.weights != nil {
		for _, l := range y.labels {
			all.weights = append(all.weights, y.weights[l])
		}
	}
	tab, err := newTable(all, scaling{standardize: standardize})
	if err != nil {
		t.Fatal(err)
	}
	k, err := newKernel(context.Background(), tab, y, groups, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, 0)
	for _, l := range y.labels {
		for l >= len(counts) {
			counts = append(counts, 0)
		}
		counts[l]++
	}
	g := newMoments(tab.features, len(counts))
	g.weights = y.weights
	g.add(x, y.labels)
	m, err := newPrimal(sums{all: g, kept: x}, y, groups, scaling{standardize: standardize})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]system{"kernel": k, "moments": m}
}

func tableOf(t *testing.T, x []float32, n int, standardize bool) table {
	t.Helper()
	tab, err := newTable(&samples{features: len(x) / n, n: n, x: x}, scaling{standardize: standardize})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// TestLeaveOneOutIsRefitting compares leave-one-out with refits without each sample, through
// both systems: 1e-8 for the float64 solvers' difference, more if 1-h is small.
func TestLeaveOneOutIsRefitting(t *testing.T) {
	for _, r := range references(t) {
		for _, f := range r.Fits {
			y := newTargets(r.Labels, countsOf(r.Labels, r.Classes), nil)
			for name, sys := range bothSystems(t, r.X, y, nil, f.Standardize) {
				fitted, err := sys.solve(context.Background(), f.Alpha, true)
				if err != nil {
					t.Fatal(err)
				}
				got, err := examine(context.Background(), fitted, y, countsOf(r.Labels, r.Classes), false)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(got.Error-f.LOOError) > 1e-8*f.LOOError || got.Accuracy != f.LOOAccuracy {
					t.Errorf("%s, %s, alpha %g, standardize %v: error %.12g accuracy %g, want %.12g, %g",
						r.Name, name, f.Alpha, f.Standardize, got.Error, got.Accuracy, f.LOOError, f.LOOAccuracy)
				}
			}
		}
	}
}

func countsOf(labels []int, classes int) []int {
	counts := make([]int, classes)
	for _, l := range labels {
		counts[l]++
	}
	return counts
}

// momentsOf returns the moments of samples [from, to) of a case.
func momentsOf(r reference, from, to int) *moments {
	g := newMoments(r.Features, r.Classes)
	g.add(r.X[from*r.Features:to*r.Features], r.Labels[from:to])
	return g
}
