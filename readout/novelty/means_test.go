package novelty

import (
	"math"
	"slices"
	"testing"
)

// TestAddMeans: the squared lengths of the directions are added to the score, and no sum overflows.
func TestAddMeans(t *testing.T) {
	d := &Detector{Means: &Means{Center: []float32{1, -2, .5}, Axes: []float32{2, 0, 0, .1, -.3, 4}}}
	s := []float32{3, 1.7, -.25}
	var second float32
	for j, v := range d.Means.Axes[3:] {
		second += float32(v * float32(s[j]-d.Means.Center[j]))
	}
	if got, want := d.AddMeans(1.5, s), float32(1.5+4*4+float64(second)*float64(second)); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := d.AddMeans(1.5, d.Means.Center); got != 1.5 {
		t.Errorf("at the center %v, want 1.5", got)
	}
	if got := d.AddMeans(1.5, nil); got != 1.5 {
		t.Errorf("without statistics %v, want 1.5", got)
	}
	for _, far := range []float32{1e30, float32(math.Inf(1)), float32(math.NaN())} {
		if got := d.AddMeans(1, []float32{far, 0, 0}); got != math.MaxFloat32 {
			t.Errorf("a mean of %v: %v, want the largest number", far, got)
		}
	}
	d.Means.Axes = slices.Repeat(d.Means.Axes, 3) // six directions, four of them together
	if got, want := d.AddMeans(1.5, s), float32(1.5+3*(4*4+float64(second)*float64(second))); math.Abs(float64(got-want)) > 1e-5 {
		t.Errorf("six directions: %v, want %v", got, want)
	}
	d.Means = nil
	if got := d.AddMeans(1.5, s); got != 1.5 || d.Statistics() != 0 {
		t.Errorf("no means: %v of %d statistics", got, d.Statistics())
	}
}

// TestMeansAreChecked: directions are whole and finite.
func TestMeansAreChecked(t *testing.T) {
	valid := func() *Detector {
		return &Detector{
			Center: []float32{0, 0}, Scale: []float32{1, 1}, Axes: []float32{1, 0}, Left: []float32{1}, Unit: 1, Level: .1,
			Means: &Means{Center: []float32{1, 2}, Axes: []float32{1, 0, 0, 1, .5, .5}},
		}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m *Means){
		"no direction":       func(m *Means) { m.Axes = nil },
		"no statistic":       func(m *Means) { m.Center = nil },
		"part of one":        func(m *Means) { m.Axes = m.Axes[:5] },
		"too many":           func(m *Means) { m.Axes = slices.Repeat(m.Axes, 400) },
		"an infinite center": func(m *Means) { m.Center[1] = float32(math.Inf(-1)) },
		"no number":          func(m *Means) { m.Axes[3] = float32(math.NaN()) },
	} {
		d := valid()
		if change(d.Means); d.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
