package readout

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// RandomFeatures are the non-linear part of a regression: units with drawn weights that read
// statistics of a sequence's samples, and learned weights of the units (random vector
// functional link; Pao, Park and Sobajic, "Learning and generalization characteristics of the
// random vector functional-link net", 1994).
type RandomFeatures struct {
	Center  []float32 // of each statistic
	Weights []float32 // drawn, units x statistics, row-major
	Bias    []float32 // drawn, one of each unit
	Out     []float32 // learned, one of each unit
}

// Units returns the number of units; 0 for nil.
func (r *RandomFeatures) Units() int {
	if r == nil {
		return 0
	}
	return len(r.Bias)
}

// Statistics returns the number of statistics that the units read; 0 for nil.
func (r *RandomFeatures) Statistics() int {
	if r == nil {
		return 0
	}
	return len(r.Center)
}

// Features writes the value of each unit to dst, between -1 and 1.
//
// Canonical, and the same on every platform: Bias + the sum of Weights * (statistic - Center)
// in float32, one rounding for each operation, in ascending order; the value is canon.Tanh of
// the sum.
func (r *RandomFeatures) Features(dst, statistics []float32) {
	n, u := len(r.Center), 0
	statistics = statistics[:n]
	for ; u+8 <= len(r.Bias); u += 8 { // eight independent sums
		r.eight((*[8]float32)(dst[u:]), u, statistics)
	}
	for ; u < len(r.Bias); u++ {
		sum := r.Bias[u]
		for j, w := range r.Weights[u*n : (u+1)*n] {
			sum += float32(w * (statistics[j] - r.Center[j]))
		}
		dst[u] = canon.Tanh(sum)
	}
}

// eight is Features of eight units from u on. Products are converted, so that no platform
// fuses them with a sum.
func (r *RandomFeatures) eight(dst *[8]float32, u int, statistics []float32) {
	n := len(statistics)
	center, b, w := r.Center[:n], (*[8]float32)(r.Bias[u:]), r.Weights[u*n:(u+8)*n]
	w0, w1, w2, w3 := w[:n], w[n:][:n], w[2*n:][:n], w[3*n:][:n]
	w4, w5, w6, w7 := w[4*n:][:n], w[5*n:][:n], w[6*n:][:n], w[7*n:][:n]
	s0, s1, s2, s3, s4, s5, s6, s7 := b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]
	for j, v := range statistics {
		z := v - center[j]
		s0 += float32(w0[j] * z)
		s1 += float32(w1[j] * z)
		s2 += float32(w2[j] * z)
		s3 += float32(w3[j] * z)
		s4 += float32(w4[j] * z)
		s5 += float32(w5[j] * z)
		s6 += float32(w6[j] * z)
		s7 += float32(w7[j] * z)
	}
	for k, sum := range [8]float32{s0, s1, s2, s3, s4, s5, s6, s7} {
		dst[k] = canon.Tanh(sum)
	}
}

// addTo returns a score plus the sum of Out times Features in float64, in ascending order,
// rounded to float32. Without statistics it returns the score.
func (r *RandomFeatures) addTo(score float32, statistics []float32) float32 {
	if len(statistics) < len(r.Center) {
		return score
	}
	sum := float64(score)
	var values [64]float32
	for u := 0; u < len(r.Bias); u += len(values) {
		some := r.units(u, min(len(r.Bias), u+len(values)))
		some.Features(values[:], statistics)
		for k, w := range some.Out {
			sum += float64(float64(w) * float64(values[k]))
		}
	}
	return float32(sum)
}

// units are the units [from, to).
func (r *RandomFeatures) units(from, to int) RandomFeatures {
	n := len(r.Center)
	return RandomFeatures{Center: r.Center, Weights: r.Weights[from*n : to*n], Bias: r.Bias[from:to], Out: r.Out[from:to]}
}

// checkRandom reports errors of shape and value.
func (l *Linear) checkRandom() error {
	r := l.Random
	if r == nil {
		return nil
	}
	d, u := len(r.Center), len(r.Bias)
	switch {
	case l.Interval == nil:
		return fmt.Errorf("readout: %q: random features of a readout with classes, want a regression", l.Name)
	case d == 0 || u == 0 || len(r.Weights) != d*u || len(r.Out) != u:
		return fmt.Errorf("readout: %q: random features: %d statistics, %d biases, %d weights and %d learned weights, want u biases, u learned weights and u x statistics weights, at least one of each", l.Name, d, u, len(r.Weights), len(r.Out))
	}
	for _, v := range [][]float32{r.Center, r.Weights, r.Bias, r.Out} {
		for i, x := range v {
			if !isFinite(x) {
				return fmt.Errorf("readout: %q: random features: number %d is %v, want finite numbers", l.Name, i, x)
			}
		}
	}
	return nil
}
