package detect

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

// TestStatistics checks the statistics of a few samples, computed by hand.
func TestStatistics(t *testing.T) {
	// Channel 0: 1, 3, 1, 3; channel 1: 5, 5, 5, 5.
	x := []float32{1, 5, 3, 5, 1, 5, 3, 5}
	var got [6]float64
	Statistics(got[:], x, nil, 2)
	// Channel 0: variance 1, squared steps 4; channel 1: neither.
	for k, want := range []float64{2, 0, math.Log(4), 5, math.Log(1e-30), 0} {
		if math.Abs(got[k]-want) > 1e-12 {
			t.Errorf("value %d is %v, want %v", k, got[k], want)
		}
	}
	for _, samples := range [][]float32{nil, {7, 8}} {
		Statistics(got[:], samples, nil, 2)
		for k, v := range got {
			if v-v != 0 {
				t.Errorf("of %d samples, value %d is %v", len(samples)/2, k, v)
			}
		}
	}
}

// TestReadInputs reads statistics that are linear in the causes of the features, with noise,
// from features of new sequences; a constant statistic is 0. A statistic unrelated to the
// features is not read, and leave-one-out reports a share of 0, also with more features than
// sequences.
func TestReadInputs(t *testing.T) {
	const factors, features, n = 10, 400, 200
	r := rand.New(rand.NewPCG(1, 2))
	var mix [features][factors]float64
	for j := range mix {
		for k := range mix[j] {
			mix[j][k] = r.NormFloat64()
		}
	}
	draw := func() (x []float32, y []float64) {
		for range n {
			var f [factors]float64
			for k := range f {
				f[k] = r.NormFloat64()
			}
			y = append(y, 3*f[0]-f[7]+100, .01*(f[1]+f[2]), 5, r.NormFloat64(), r.NormFloat64(), r.NormFloat64())
			for j := range mix {
				v := .1 * r.NormFloat64()
				for k := range f {
					v += mix[j][k] * f[k]
				}
				x = append(x, float32(v))
			}
		}
		return x, y
	}
	x, y := draw()
	d, report, err := Fit(context.Background(), x, n, Options{Inputs: y})
	if err != nil {
		t.Fatal(err)
	}
	if s := report.Inputs; len(s) != 6 || s[0] < .99 || s[1] < .99 || s[2] != 0 || s[3]+s[4]+s[5] > .3 || d.InputValues() != 6 {
		t.Fatalf("shares %v, %d values", s, d.InputValues())
	}
	x, y = draw()
	for i := range n {
		z := x[i*features : (i+1)*features]
		var got [6]float32
		d.Score(z)
		d.ReadInputs(got[:], z)
		// In deviations: the statistics have sqrt(10) and .01 sqrt(2). 200 sequences give a
		// deviation and a mean to a twentieth, and values reach up to four deviations.
		for k, want := range []float64{(y[6*i] - 100) / math.Sqrt(10), y[6*i+1] / (.01 * math.Sqrt2), 0} {
			if math.Abs(float64(got[k])-want) > .6 {
				t.Fatalf("sequence %d: value %d is %v, want about %v", i, k, got[k], want)
			}
		}
	}
	if _, _, err := Fit(context.Background(), x, n, Options{Inputs: y[:2*n]}); err == nil {
		t.Error("statistics of a third of the inputs: no error")
	}
}

// TestStatisticsOfAnyUnit: a unit of 1e-15 changes the logarithm of the variance by a
// constant, also of a constant sequence, and the level is still learned.
func TestStatisticsOfAnyUnit(t *testing.T) {
	const unit = 1e-15
	var one, small [3]float64
	y := make([]float64, 0, 3)
	for _, x := range [][]float32{{1, 3, 1, 4}, {.01, .02, .01, .02}, {5, 5, 5, 5}} {
		scaled := make([]float32, len(x))
		for i, v := range x {
			scaled[i] = v * unit
		}
		Statistics(one[:], x, []float32{1}, 1)
		Statistics(small[:], scaled, []float32{1 / unit}, 1)
		want := [3]float64{one[0] * unit, one[1] + 2*math.Log(unit), one[2]}
		for k, v := range small {
			if math.Abs(v-want[k]) > 1e-5*math.Abs(want[k])+1e-30 {
				t.Errorf("%v in units of %v: value %d is %v, want %v", x, unit, k, v, want[k])
			}
		}
		y = append(y, small[0])
	}
	if !standardize(y, true) {
		t.Error("levels in a small unit count as constant")
	}
}
