package detect

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// Statistics writes InputsOf statistics of each channel of a sequence to dst: the mean; the
// logarithm of the variance; and the logarithm of the mean square of the difference of two
// successive samples, relative to the variance (twice the logarithm of Hjorth's mobility,
// Electroencephalography and Clinical Neurophysiology 29 (1970) 306-310: the larger, the
// faster the signal). samples are row-major. scales bring each channel to a deviation of one;
// 0: not known; nil: none known.
func Statistics(dst []float64, samples, scales []float32, channels int) {
	n := float64(len(samples) / channels)
	for c := range channels {
		least := 1e-30 // limits a variance, so that its logarithm is finite
		if c < len(scales) && scales[c] != 0 {
			least /= float64(scales[c]) * float64(scales[c])
		}
		mean, variance, steps := 0., 0., 0.
		for i := c; i < len(samples); i += channels {
			mean += float64(samples[i])
		}
		mean /= max(1, n)
		for i := c; i < len(samples); i += channels {
			d := float64(samples[i]) - mean
			variance += float64(d * d)
			if i >= channels {
				d = float64(samples[i]) - float64(samples[i-channels])
				steps += float64(d * d)
			}
		}
		variance, steps = max(least, variance/max(1, n)), max(least, steps/max(1, n-1))
		dst[novelty.InputsOf*c], dst[novelty.InputsOf*c+1], dst[novelty.InputsOf*c+2] = mean, math.Log(variance), math.Log(steps/variance)
	}
}

// inputs fits weights that read statistics from features, and their explained shares.
func (l *learner) inputs(s *subspace, rows []int) (weights []float32, share []float64, err error) {
	of := l.opt.Inputs
	if of == nil {
		return nil, nil, nil
	}
	if len(of)%(novelty.InputsOf*len(rows)) != 0 {
		return nil, nil, fmt.Errorf("detect: %d statistics of the inputs of %d sequences, want %d for each channel", len(of), len(rows), novelty.InputsOf)
	}
	count := len(of) / len(rows)
	rows = fewer(rows)
	n := len(rows)
	z := l.gather(rows)
	z.Center, z.Scale = s.mean, s.scale
	kernel := dense.New(n, n)
	dense.AddKernel(kernel, z)
	// An intercept at almost no cost: rows and y are centered, so that the intercept changes
	// only the left-out errors, not the solution.
	free := 0.
	for i := range n {
		free += kernel.Row(i)[i] / float64(n)
	}
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			sym.SetSym(i, j, kernel.Row(i)[j]+free)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(sym, true) {
		return nil, nil, errors.New("detect: the eigenvalues of the training part did not converge")
	}
	r := ridge{n: n, values: eigen.Values(nil)}
	eigen.VectorsTo(&r.vectors)
	dual := dense.New(n, count)
	share = make([]float64, count)
	y := make([]float64, n)
	for k := range count {
		for i, row := range rows {
			y[i] = of[row*count+k]
		}
		if !standardize(y, k%novelty.InputsOf == 0) {
			continue
		}
		var a []float64
		if a, share[k] = r.best(y); share[k] <= 0 {
			share[k] = 0
			continue
		}
		for i, v := range a {
			dual.Row(i)[k] = v
		}
	}
	w := dense.New(l.f, count)
	dense.MultiplySamples(w, 1, z, true, dual)
	weights = make([]float32, count*l.f)
	for j := range l.f {
		for k, v := range w.Row(j) {
			weights[k*l.f+j] = float32(v)
		}
	}
	return weights, share, nil
}

// standardize centers y and divides by its deviation. standardize returns false if y is
// constant to rounding: of float32 samples (levels, in any unit), or of logarithms (other
// statistics).
func standardize(y []float64, level bool) bool {
	mean, variance := 0., 0.
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		variance += float64((v-mean)*(v-mean)) / float64(len(y))
	}
	dev := math.Sqrt(variance)
	if level && !(dev > 0x1p-26*math.Abs(mean)) || !level && !(dev > 0x1p-20*math.Abs(mean) && dev > 1e-6) {
		return false
	}
	for i := range y {
		y[i] = (y[i] - mean) / dev
	}
	return true
}

// ridge is the kernel of n rows as eigenvectors.
type ridge struct {
	n       int
	values  []float64 // ascending
	vectors mat.Dense
}

// best returns the dual solution for y with the smallest leave-one-out error, and the share of
// the variance explained by the left-out predictions.
func (r *ridge) best(y []float64) (best []float64, share float64) {
	p := make([]float64, r.n) // y in eigenvectors
	for i, v := range y {
		for c := range p {
			p[c] += float64(r.vectors.At(i, c) * v)
		}
	}
	share = math.Inf(-1)
	for a := 1e-8 * r.values[r.n-1]; a < 2*r.values[r.n-1]; a *= 10 {
		dual, left := make([]float64, r.n), 0.
		for i := range dual {
			h := 0. // diagonal of the inverse
			for c, v := range r.values {
				u := r.vectors.At(i, c)
				g := u / (max(0, v) + a)
				dual[i] += float64(g * p[c])
				h += float64(g * u)
			}
			left += float64(dual[i] / h * (dual[i] / h))
		}
		if s := 1 - left/float64(r.n); s > share {
			best, share = dual, s
		}
	}
	return best, share
}

// fewer returns at most Learned rows, at even distances, the same rows as in learn.
func fewer(rows []int) []int {
	if len(rows) <= Learned {
		return rows
	}
	few := make([]int, Learned)
	for i := range few {
		few[i] = rows[i*len(rows)/Learned]
	}
	return few
}
