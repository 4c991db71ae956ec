package quality

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestQualityIsScikitLearns compares every figure with scikit-learn
// (testdata/make_quality.py). 1e-12: sums of a hundred float64, in another order.
func TestQualityIsScikitLearns(t *testing.T) {
	data, err := os.ReadFile("testdata/quality.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name                         string
		Temperature                  float64
		Labels                       []int
		Scores                       []float64
		Precision, Recall, F1, AUROC []*float64
		Balanced                     float64
		MeanF1                       float64 `json:"mean_f1"`
		LogLoss                      float64 `json:"log_loss"`
		ECE, Chance                  float64
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 7 {
		t.Fatalf("%d reference cases, want 7", len(all))
	}
	for _, c := range all {
		k := len(c.F1)
		r, err := New(strings.Split("abcdef", "")[:k], c.Labels, c.Scores, c.Temperature)
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got, want *float64) {
			t.Helper()
			if (got == nil) != (want == nil) || got != nil && !(math.Abs(*got-*want) <= 1e-12*max(1, math.Abs(*want))) {
				t.Errorf("%s: %s is %v, want %v", c.Name, what, text(got), text(want))
			}
		}
		sum, n := 0.0, 0
		for i, one := range r.Classes {
			near("precision of "+one.Class, one.Precision, c.Precision[i])
			near("recall of "+one.Class, one.Recall, c.Recall[i])
			near("F1 of "+one.Class, one.F1, c.F1[i])
			near("AUROC of "+one.Class, one.AUROC, c.AUROC[i])
			if one.AUROC != nil {
				sum, n = sum+*one.AUROC, n+1
			}
		}
		sum /= float64(n)
		near("mean AUROC", r.AUROC, &sum)
		near("balanced accuracy", &r.Balanced, &c.Balanced)
		near("mean F1", &r.F1, &c.MeanF1)
		near("log-loss", r.LogLoss, &c.LogLoss)
		near("calibration error", r.ECE, &c.ECE)
		near("calibration error by chance", r.Chance, &c.Chance)
	}
}

func text(v *float64) any {
	if v == nil {
		return "not known"
	}
	return *v
}

// TestQualityWithoutTemperature: without a temperature there are no probabilities, and no
// figures of probabilities.
func TestQualityWithoutTemperature(t *testing.T) {
	r, err := New([]string{"a", "b"}, []int{0, 1, 1}, []float64{0, -1, 0, 2, 0, -3}, 0)
	if err != nil || r.LogLoss != nil || r.ECE != nil || r.AUROC != nil || r.Classes[1].AUROC != nil || r.Balanced != .75 || *r.Classes[0].Precision != .5 {
		t.Errorf("%+v, %v", r, err)
	}
	both, err := New([]string{"a", "b"}, []int{1, 1}, []float64{0, 1, 0, 2}, 1)
	if err != nil || both.Classes[1].AUROC != nil || both.AUROC != nil || both.LogLoss == nil || both.Balanced != 1 {
		t.Errorf("one class: %+v, %v", both, err)
	}
}

// TestDeviationOfManySamples: for many samples the normal distribution's deviation agrees with
// the exact one, within the error in deviation's comment; certain samples have none.
func TestDeviationOfManySamples(t *testing.T) {
	for _, p := range []float64{.03, .5, .9} {
		var many []float64
		for n := 0; float64(n)*p*(1-p) < 99.5; n++ {
			many = append(many, p)
		}
		exact := deviation(many)
		variance := float64(len(many)) * p * (1 - p)
		if near := math.Sqrt(2 * variance / math.Pi); math.Abs(exact-near) > 1e-3*exact {
			t.Errorf("p %v: %v, the normal distribution has %v", p, exact, near)
		}
	}
	if d := deviation([]float64{1, 1, 0}); d != 0 {
		t.Errorf("certain samples are %v off", d)
	}
	if d := deviation([]float64{.5}); d != .5 {
		t.Errorf("a coin is %v off, want a half", d)
	}
}

func TestQualityRefuses(t *testing.T) {
	classes, scores := []string{"a", "b"}, []float64{1, 2, 3, 4}
	for want, call := range map[string]func() error{
		"4 scores of 1 samples": func() error { _, err := New(classes, []int{0}, scores, 1); return err },
		"0 scores of 0 samples": func() error { _, err := New(classes, nil, nil, 1); return err },
		"want one for each":     func() error { _, err := New(classes[:1], []int{0}, scores[:1], 1); return err },
		"sample 1 has label 2":  func() error { _, err := New(classes, []int{0, 2}, scores, 1); return err },
		"sample 0 has label -1": func() error { _, err := New(classes, []int{-1, 0}, scores, 1); return err },
		"sample 1 has scores [NaN ": func() error {
			_, err := New(classes, []int{0, 0}, append(slices.Clone(scores[:2]), math.NaN(), 1), 1)
			return err
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestNumbersPHM08: late predictions cost more than early ones, perfect ones nothing; an
// error beyond the largest float64 has no score.
func TestNumbersPHM08(t *testing.T) {
	numbers, values := []float64{50, 50, 50}, []float64{70, 24, 50}
	of := func(n int) *Numbers {
		return OfNumbers(n, func(i int) (number, value, low, high float64) { return numbers[i], values[i], values[i], values[i] })
	}
	if got, want := of(3).PHM08, 2*math.Exp(2)-2; got == nil || math.Abs(*got-want) > 1e-12 { // float64 rounding
		t.Errorf("score %v, want %v", got, want)
	}
	if values[0] = 1e6; of(3).PHM08 != nil {
		t.Error("an infinite score is reported")
	}
}

// TestAgainstHealthy: the AUROC against the healthy class counts pairs of samples of both classes
// only; without a single class with such a name there is none.
func TestAgainstHealthy(t *testing.T) {
	labels := []int{0, 0, 1, 1, 2}
	scores := []float64{
		3, 1, 0, // differences of class 1 and the healthy class: -2
		1, 2, 0, // 1
		1, 2, 9, // 1: equal to a healthy sample, larger than the other
		1, 0, 9, // -1
		0, 0, 5,
	}
	r, err := New([]string{"Fault-Free", "a", "b"}, labels, scores, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Classes; r.Healthy != "Fault-Free" || c[0].Against != nil || *c[1].Against != 2.5/4 || *c[2].Against != 1 {
		t.Errorf("%q, %s, %s, %s", r.Healthy, text(c[0].Against), text(c[1].Against), text(c[2].Against))
	}
	if like := r.LikeHealthy(); len(like) != 1 || like[0].Class != "a" {
		t.Errorf("like the healthy class are %+v", like)
	}
	for _, classes := range [][]string{{"x", "a", "b"}, {"ok", "normal", "b"}} {
		if r, err := New(classes, labels, scores, 0); err != nil || r.Healthy != "" || r.LikeHealthy() != nil {
			t.Errorf("%q: %+v, %v", classes, r, err)
		}
	}
}
