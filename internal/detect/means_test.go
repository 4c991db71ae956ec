package detect

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// pairs makes statistics of n sequences with two channels that agree to a tenth, and two means of each; apart is added
// to one channel.
func pairs(rng *rand.Rand, n int, apart float64) (statistics []float32) {
	for range n {
		common := rng.NormFloat64()
		for c := range 2 {
			short := 50 + common + .1*rng.NormFloat64() + apart*float64(c)
			long := 50 + common + apart*float64(c)
			statistics = append(statistics, float32(short), float32(short-long))
		}
	}
	return statistics
}

// share returns the share of new sequences with these statistics that a detector finds.
func share(d *novelty.Detector, rng *rand.Rand, statistics []float32) float64 {
	const width = 4
	n, novel := len(statistics)/width, 0
	row := make([]float32, d.Features())
	for i := range n {
		for j := range row {
			row[j] = float32(rng.NormFloat64())
		}
		if d.Novel(d.P(d.AddMeans(d.Score(row), statistics[i*width:][:width]))) {
			novel++
		}
	}
	return float64(novel) / float64(n)
}

// Means find channels that no longer agree, which the features do not show; the false alarms stay as promised, and the
// usual score is 1.
func TestMeans(t *testing.T) {
	const n, later = 200, 400
	rng := rand.New(rand.NewPCG(7, 8))
	x, o := noisy(n, 60, 0)
	o.Level, o.Statistics, o.Means, o.dims = .05, pairs(rng, n, 0), 2, 4
	d, r := fit(t, x, n, o)
	if got := share(d, rng, pairs(rng, later, 0)); got > .1 { // 20 of 400 at .05: above 40 has a probability below 1e-4
		t.Errorf("%v of healthy sequences are novel, promised .05", got)
	}
	if got := share(d, rng, pairs(rng, later, 1)); got < .95 {
		t.Errorf("%v of the sequences with channels apart are novel", got)
	}
	if r.Later == nil || !r.Later.Holds() {
		t.Errorf("later: %+v", r.Later)
	}
	if m := d.Left[len(d.Left)/2]; m != 1 {
		t.Errorf("the usual score is %v, want 1", m)
	}
	o.Statistics, o.Spans = nil, nil
	d, _ = fit(t, x, n, o)
	if got := share(d, rng, pairs(rng, later, 1)); d.Means != nil || got > .1 {
		t.Errorf("without statistics %v are novel: the test shows nothing", got)
	}
}

// The distance is that of the whitened levels: independent of their units.
func TestMeansWhiten(t *testing.T) {
	const n = 60
	x, o := noisy(n, 20, 0)
	o.Spans, o.Statistics, o.Means, o.dims = nil, pairs(rand.New(rand.NewPCG(1, 2)), n, 0), 2, 4
	one, _ := fit(t, x, n, o)
	scaled := slices.Clone(o.Statistics)
	for i := range scaled {
		if i%4 > 1 {
			scaled[i] *= -32
		}
	}
	o.Statistics = scaled
	other, _ := fit(t, x, n, o)
	s, far := []float32{51, .25, 49, -.5}, []float32{51, .25, -32 * 49, 32 * .5}
	a, b := one.AddMeans(0, s), other.AddMeans(0, far)
	if a != b || a < 1 { // a power of two changes no bit
		t.Errorf("%v in one unit, %v in another", a, b)
	}
}

// Constant statistics have no use, and wrong shapes are refused.
func TestMeansChecked(t *testing.T) {
	const n = 60
	x, o := noisy(n, 40, 0)
	o.Statistics, o.Means = make([]float32, 4*n), 2
	if d, _ := fit(t, x, n, o); d.Means != nil {
		t.Error("means that never change")
	}
	for _, means := range []int{0, 3} {
		o.Means = means
		if _, _, err := Fit(context.Background(), x, n, o); err == nil || !strings.Contains(err.Error(), "want as many means of each channel") {
			t.Errorf("%d means: %v", means, err)
		}
	}
}
