package reservoir

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSplice: a splice has the features of the values of both parts, in these shares.
func TestSplice(t *testing.T) {
	spec, err := Bank("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	draw := func(n int) (x []float64) {
		at, size := r.NormFloat64(), r.Float64()
		for range n {
			x = append(x, at+size*r.NormFloat64())
		}
		return x
	}
	// of returns features of values of a unit, as in a bank.
	of := func(x []float64) []float32 {
		n, sum, square, positive, changes := float64(len(x)), 0., 0., 0., 0.
		for i, v := range x {
			sum += v
			square += v * v
			if v > 0 {
				positive++
			}
			if i%3 == 0 { // a share of samples, whichever
				changes++
			}
		}
		mean := sum / n
		f := map[Feature]float64{Last: x[len(x)-1], Mean: mean, Positive: positive / n, Max: slices.Max(x), Std: math.Sqrt(square/n - mean*mean), Changes: changes / n}
		var v []float32
		for _, name := range MixedFeatures {
			v = append(v, float32(f[name]))
		}
		return v
	}
	f := spec.FeatureCount()
	a, b, want, got := make([]float32, f), make([]float32, f), make([]float32, f), make([]float32, f)
	kinds := len(MixedFeatures)
	for unit := range f / kinds {
		x, y := draw(30), draw(90)
		p, q, both := of(x), of(y), of(slices.Concat(x, y))
		for k := range kinds {
			i := (unit/spec.Units*kinds+k)*spec.Units + unit%spec.Units
			a[i], b[i], want[i] = p[k], q[k], both[k]
		}
	}
	splice := spec.Splice()
	splice(got, a, b, .25)
	for i, v := range got {
		if math.Abs(float64(v-want[i])) > 1e-4 {
			t.Fatalf("%s: feature %d of both is %v, want %v", MixedFeatures[i/spec.Units%kinds], i, v, want[i])
		}
	}
	if (Spec{Kind: EuSN}).Splice() != nil {
		t.Error("kind eusn has splices, which were not measured")
	}
}
