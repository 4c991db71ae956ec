package compare

import (
	"math"
	"slices"
	"testing"
)

// methodOf returns a method with these accuracies.
func methodOf(name string, accuracies map[string]float64) Method {
	return Method{name, func(d string) (float64, bool) {
		a, ok := accuracies[d]
		return a, ok
	}}
}

func TestRank(t *testing.T) {
	a := methodOf("a", map[string]float64{"one": .9, "two": .7004, "three": .5})
	b := methodOf("b", map[string]float64{"one": .8, "two": .7001, "four": 1})
	r := Rank("both", []string{"one", "two", "three", "four"}, []Method{a, b})
	if !slices.Equal(r.Datasets, []string{"one", "two"}) || !slices.Equal(r.Missing, []string{"three", "four"}) {
		t.Errorf("over %q, without %q", r.Datasets, r.Missing)
	}
	// On the second set the accuracies are equal at three digits: ranks 1, 1.5 and 2,
	// 1.5.
	if !slices.Equal(r.Ranks, []float64{1.25, 1.75}) || math.Abs(r.Means[0]-.8002) > 1e-12 || math.Abs(r.Means[1]-.75005) > 1e-12 {
		t.Errorf("ranks %v, means %v", r.Ranks, r.Means)
	}
	if r.CD == 0 || r.P == 0 {
		t.Errorf("critical difference %g, p %g", r.CD, r.P)
	}
	d := r.Difference(0, 1)
	// Differences .1 and .0003: mean .05015, standard error .0997/2.
	if math.Abs(d.Mean-.05015) > 1e-12 || math.Abs(d.Error-.04985) > 1e-12 || d.Better != 1 || d.Equal != 1 || d.Worse != 0 {
		t.Errorf("%+v", d)
	}
	if got, want := (Difference{Mean: -.0125, Error: .004, Better: 8, Equal: 3, Worse: 30}).String(), "-0.0125 ± 0.0040 (8 better, 3 equal, 30 worse)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if back := r.Difference(1, 0); back.Mean != -d.Mean || back.Better != 0 || back.Worse != 1 || back.Method != "b" || back.Against != "a" {
		t.Errorf("the other way: %+v", back)
	}
	if r := Rank("alone", []string{"one"}, []Method{a}); r != nil {
		t.Error("one method is no comparison")
	}
	if r := Rank("nothing", []string{"three", "four"}, []Method{a, b}); r != nil {
		t.Error("no data set is no comparison")
	}
	if r := Rank("one set", []string{"one"}, []Method{a, b}); r == nil || r.CD != 0 || r.Difference(0, 1).Error != 0 {
		t.Error("one data set has means and no tests")
	}
}
