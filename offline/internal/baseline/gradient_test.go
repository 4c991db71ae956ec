package baseline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var kinds = []Kind{RNN, ARNN, GRU}

func network(t testing.TB, s Spec) *Network {
	t.Helper()
	n, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// noise makes series of random length, values and class.
func noise(seed uint64, n, channels, classes, least, most int) []Series {
	rng := rand.New(rand.NewPCG(seed, 1))
	series := make([]Series, n)
	for i := range series {
		v := make([]float32, channels*(least+rng.IntN(most-least+1)))
		for j := range v {
			v[j] = float32(rng.NormFloat64())
		}
		series[i] = Series{v, rng.IntN(classes)}
	}
	return series
}

// Every single derivative is that of central differences. With a step of 1e-5
// those are wrong by some 1e-10 (the third derivative times the step's square,
// rounding over the step), so that 1e-8 leaves room and no error of substance.
func TestGradientIsTheLoss(t *testing.T) {
	for _, kind := range kinds {
		for _, classes := range []int{2, 4} {
			t.Run(fmt.Sprint(kind, classes), func(t *testing.T) {
				s := Spec{Kind: kind, Units: 7, Channels: 3, Classes: classes, Eps: 0.3, Gamma: 0.2, Seed: 5}
				n := network(t, s)
				rng := rand.New(rand.NewPCG(8, 9))
				for i := range n.weights.all {
					n.weights.all[i] += 0.3 * rng.NormFloat64() // biases too
				}
				n.refresh()
				series := noise(3, 2*rows+6, 3, classes, 1, 12) // three loads, unequal lengths
				g := newWeights(s)
				if err := n.gradient(t.Context(), series, &g); err != nil {
					t.Fatal(err)
				}
				const step = 1e-5
				loss := func() float64 {
					n.refresh()
					l, _, err := n.Ask(t.Context(), series)
					if err != nil {
						t.Fatal(err)
					}
					return l
				}
				worst := 0.0
				for i, w := range n.weights.all {
					n.weights.all[i] = w + step
					up := loss()
					n.weights.all[i] = w - step
					down := loss()
					n.weights.all[i] = w
					d := math.Abs((up-down)/(2*step) - g.all[i])
					worst = max(worst, d)
					if !(d <= 1e-8) {
						t.Errorf("weight %d of %d: gradient %g, differences %g", i, len(g.all), g.all[i], (up-down)/(2*step))
					}
				}
				t.Logf("largest difference %.1e", worst)
			})
		}
	}
}
