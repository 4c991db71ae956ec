package reservoir

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func testRegimes() *Front {
	return &Front{Fill: []float32{1, 2, 3}, Regimes: &Regimes{
		Settings: []int{0, 2}, Mean: []float64{10, 1. / 3}, Scale: []float64{.5, 3},
		Centers: [][]float64{{-1, 0}, {1, 0}, {1, 2}}, Reach: []float64{.5, .25, 1e-3},
		Means: [][]float32{{0, 1, 0}, {0, 2, 0}, {0, 1e9, 0}}, Scales: [][]float32{{0, 4, 0}, {0, .1, 0}, {0, 1e15, 0}},
	}}
}

// TestRegimesRun: each sample is standardized within the regime with the nearest center, the
// first of equal ones; settings become 0, and results beyond MaxInput are limited.
func TestRegimesRun(t *testing.T) {
	f := testRegimes()
	x := []float32{8, 3, 1. / 3, 12, 3, 1. / 3, 10, 3, 1. / 3, 12, 3, 1, 8.5, 1, .25}
	for i, want := range []struct {
		regime int
		far    bool
	}{{0, false}, {1, false}, {0, true}, {2, false}, {0, false}} {
		if r, far := f.Regimes.Of(x[3*i:]); r != want.regime || far != want.far {
			t.Errorf("sample %d: regime %d, far %v, want %+v", i, r, far, want)
		}
	}
	want := []float32{0, 8, 0, 0, .1, 0, 0, 8, 0, 0, -MaxInput, 0, 0, 0, 0}
	if n := f.Run(nil, 0, x, 3); n != 5 || f.StateSize(3) != 0 || f.Out(7) != 7 {
		t.Errorf("%d samples come out, %d numbers of state", n, f.StateSize(3))
	}
	for i := range x {
		if x[i] != want[i] {
			t.Errorf("value %d is %v, want %v", i, x[i], want[i])
		}
	}
	both := testRegimes()
	both.Decimate = 2
	y := []float32{8, 3, 1. / 3, 8, 5, 1. / 3}
	if n := both.Run(make([]float64, both.StateSize(3)), 0, y, 3); n != 1 || !slices.Equal(y[:3], []float32{0, 12, 0}) {
		t.Errorf("%d samples: %v, want the mean after the regimes", n, y)
	}
}

// TestRegimesAreChecked: Validate rejects regimes that do not fit a model.
func TestRegimesAreChecked(t *testing.T) {
	if err := testRegimes().validate(Policy{Kind: Marked}, 3); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Regimes){
		"1 centers, 3 reaches":              func(g *Regimes) { g.Centers = g.Centers[:1] },
		"0 centers":                         func(g *Regimes) { *g = Regimes{} },
		"1 settings with 2 means":           func(g *Regimes) { g.Settings = g.Settings[:1] },
		"want ascending channels below 3":   func(g *Regimes) { g.Settings[1] = 3 },
		"settings [2 2], want":              func(g *Regimes) { g.Settings[0] = 2 },
		"center 1 has 1 values, want 2":     func(g *Regimes) { g.Centers[1] = g.Centers[1][:1] },
		"center 0[0] is NaN":                func(g *Regimes) { g.Centers[0][0] = math.NaN() },
		"reach[2] is +Inf":                  func(g *Regimes) { g.Reach[2] = math.Inf(1) },
		"means of regime 1 has 2 values":    func(g *Regimes) { g.Means[1] = g.Means[1][:2] },
		"scales of regime 2[1] is 1e+20":    func(g *Regimes) { g.Scales[2][1] = 1e20 },
		"scale of settings[0] is -Inf":      func(g *Regimes) { g.Scale[0] = math.Inf(-1) },
		"mean of settings has 0 values, wa": func(g *Regimes) { g.Mean = nil },
	} {
		f := testRegimes()
		change(f.Regimes)
		if err := f.validate(Policy{Kind: Marked}, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
