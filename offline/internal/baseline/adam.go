package baseline

import "math"

// adam is the optimiser the package comment names.
type adam struct {
	rate, first, second float64 // learning rate; the running powers of beta1 and beta2
	mean, square        []float64
}

const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-7
)

func newAdam(rate float64, parameters int) *adam {
	return &adam{rate, 1, 1, make([]float64, parameters), make([]float64, parameters)}
}

// step moves the weights down the gradient, and clears that.
func (a *adam) step(w, gradient []float64) {
	a.first *= beta1
	a.second *= beta2
	rate := a.rate * math.Sqrt(1-a.second) / (1 - a.first)
	for i, g := range gradient {
		m, v := a.mean[i], a.square[i]
		m += float64((1 - beta1) * (g - m))
		v += float64((1 - beta2) * (float64(g*g) - v))
		a.mean[i], a.square[i] = m, v
		w[i] -= rate * m / (math.Sqrt(v) + epsilon)
	}
	clear(gradient)
}
