package figures

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// weights is a draw at one recurrent scale, read-only.
type weights struct {
	n           int
	wh          []float64 // n x n, antisymmetric, row by row
	input, bias []float64 // n
	beta        []float64 // ascending, the eigenvalues of wh are i*beta
	rho         float64   // the largest |beta|
}

// drawWeights draws the network of the package comment.
func drawWeights(units int, recurrent float64, seed uint64) (*weights, error) {
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 1, Members: 1, Units: units, Seed: seed,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last},
		// The cell has step size and diffusion in float64: these values are not used.
		Eps: reservoir.Fixed(1), Gamma: reservoir.Fixed(1),
		Recurrent: reservoir.Fixed(recurrent), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1),
	})
	if err != nil {
		return nil, err
	}
	m := net.Members[0]
	w := &weights{n: units, wh: widen(m.Recurrent), input: widen(m.Input), bias: widen(m.Bias)}
	for i := range units {
		w.wh[i*units+i] = 0
	}
	values, err := eigenvalues(mat.NewDense(units, units, w.wh))
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		w.beta = append(w.beta, imag(v))
	}
	slices.Sort(w.beta)
	w.rho = max(-w.beta[0], w.beta[units-1])
	return w, nil
}

func widen(v []float32) []float64 {
	w := make([]float64, len(v))
	for i := range v {
		w[i] = float64(v[i])
	}
	return w
}

// drawAll returns the weights of every recurrent scale and draw of the grid.
func (g Grid) drawAll(ctx context.Context) (map[Cell]*weights, error) {
	all := map[Cell]*weights{}
	for _, r := range g.Recurrent {
		for d := range g.Draws {
			w, err := drawWeights(g.Units, r, g.Seed+uint64(d))
			if err := errors.Join(err, ctx.Err()); err != nil {
				return nil, err
			}
			all[Cell{Recurrent: r, Draw: d}] = w
		}
	}
	return all, nil
}

// drive returns the input of a draw.
func (g Grid) drive(draw int) []float64 {
	rng := rand.New(rand.NewPCG(g.Seed+uint64(draw), 3))
	u := make([]float64, g.Steps)
	for t := range u {
		u[t] = rng.Float64() - .5
	}
	return u
}

// eigenvalues of a real matrix, in no promised order.
func eigenvalues(a *mat.Dense) ([]complex128, error) {
	var e mat.Eigen
	if !e.Factorize(a, mat.EigenNone) {
		return nil, errors.New("figures: the eigenvalues of a Jacobian did not converge")
	}
	return e.Values(nil), nil
}

// logModulus returns ln |1 + eps mu|, also accurate for eps mu far below one rounding of
// 1.
func logModulus(eps float64, mu complex128) float64 {
	re, im := eps*real(mu), eps*imag(mu)
	return math.Log1p(2*re+re*re+im*im) / 2
}
