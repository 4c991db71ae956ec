package baseline

import "math"

// adam is the optimizer of the package comment.
type adam struct {
	rate, first, second float64 // learning rate; the running powers of beta1 and beta2
	mean, square        []float32
}

const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-7
)

func newAdam(rate float64, parameters int) *adam {
	return &adam{rate, 1, 1, make([]float32, parameters), make([]float32, parameters)}
}

// step moves the weights down the gradient, and clears the gradient.
func (a *adam) step(w, gradient []float32) {
	a.first *= beta1
	a.second *= beta2
	rate := a.rate * math.Sqrt(1-a.second) / (1 - a.first)
	active.adamStep(w, gradient, a.mean, a.square, float32(rate))
}
