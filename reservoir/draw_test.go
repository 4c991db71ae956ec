package reservoir

import (
	"math"
	"slices"
	"testing"
)

// TestEpsRho: the drawn recurrent scale gives eps times the spectral radius of
// W - W' the requested value, by the random-matrix estimate.
func TestEpsRho(t *testing.T) {
	s := paperSpec(400, 1, .1, 0, 0)
	s.Recurrent, s.EpsRho = Dist{}, Fixed(.2)
	net := mustDraw(t, s)
	radius := 0.0
	for _, v := range eigenvalues(t, jacobian(net)) {
		radius = max(radius, math.Abs(imag(v)))
	}
	// The largest eigenvalue of a random antisymmetric matrix deviates from
	// the edge of its law by about N^(-2/3), here 2 %.
	if math.Abs(radius/.2-1) > .05 {
		t.Errorf("eps*rho = %v, want about .2", radius)
	}
}

// TestTF32: mantissas are rounded to 10 bits, ties to even.
func TestTF32(t *testing.T) {
	const ulp = 1.0 / (1 << 10)
	for v, want := range map[float32]float32{
		1: 1, 1 + ulp: 1 + ulp, 1 + ulp/2: 1, 1 + ulp*3/2: 1 + 2*ulp, 1 + ulp/2 + ulp/1024: 1 + ulp, 1 + ulp*3/2 - ulp/1024: 1 + ulp,
		-1 - ulp*3/2: -1 - 2*ulp, 2 - ulp/4: 2,
	} {
		if got := TF32.round(v); got != want {
			t.Errorf("%v becomes %v, want %v", v, got, want)
		}
		if got := Float32.round(v); got != v {
			t.Errorf("%v becomes %v, want it whole", v, got)
		}
	}
}

// TestSubset: a member sees a part of the inputs only if there are more than
// three.
func TestSubset(t *testing.T) {
	for channels, want := range map[int]int{2: 2, 3: 3, 4: 1} {
		s := paperSpec(2, channels, .1, .01, 1)
		s.Subset = 1
		if got := len(mustDraw(t, s).Members[0].Inputs); got != want {
			t.Errorf("of %d inputs a member sees %d, want %d", channels, got, want)
		}
	}
}

// TestScales: drawn scales fill their range log-uniformly.
func TestScales(t *testing.T) {
	d := Dist{1e-3, 10}
	var logs []float64
	for r := range 4000 {
		v := newSource(9, r, tensorScales).scale(scaleEps, d)
		if v < d.Lo || v > d.Hi {
			t.Fatalf("drew %v from %v", v, d)
		}
		logs = append(logs, (math.Log10(v)+3)/4)
	}
	slices.Sort(logs)
	for i, u := range logs {
		// Kolmogorov-Smirnov: 1.95/sqrt(4000) is the .001 quantile.
		if math.Abs(u-float64(i)/4000) > .031 {
			t.Fatalf("quantile %v stands at %v: not log-uniform", float64(i)/4000, u)
		}
	}
}
