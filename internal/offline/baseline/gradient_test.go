package baseline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/offline/descent"
)

var kinds = []Kind{RNN, ARNN, GRU}

func newNetwork(t testing.TB, s Spec) *Network {
	t.Helper()
	n, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// noise returns series of random length, values and class.
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

// Every derivative equals the central difference of the equations in float64, whose error
// is some 1e-10 with a step of 1e-5. The gradient's error is the rounding of float32 over
// 9 steps and 38 series, of numbers of about 1. The padding of the arrays has gradient
// zero.
func TestGradientIsTheLoss(t *testing.T) {
	for _, kind := range kinds {
		for _, classes := range []int{2, 4} {
			t.Run(fmt.Sprint(kind, classes), func(t *testing.T) {
				s := Spec{Kind: kind, Units: 7, Channels: 3, Classes: classes, Eps: 0.3, Gamma: 0.2, Seed: 5}
				n := newNetwork(t, s)
				disturb(n, 0.3)
				series := noise(3, rows+6, 3, classes, 1, 9) // two loads, unequal lengths
				g := n.layout.weights()
				if err := n.gradient(t.Context(), series, &g); err != nil {
					t.Fatal(err)
				}
				const step = 1e-5
				truth := exactWeights(n)
				loss := func() (sum float64) {
					for _, one := range series {
						l, _ := descent.CrossEntropy(truth.scores(one), one.Class, 0)
						sum += l
					}
					return sum / float64(len(series))
				}
				worst, learned := 0.0, 0
				for i, w := range truth.all {
					truth.all[i] = w + step
					up := loss()
					truth.all[i] = w - step
					down := loss()
					truth.all[i] = w
					if math.Abs(up-down) < 1e-15 { // only rounding
						if g.all[i] != 0 {
							t.Errorf("weight %d of %d: gradient %g, and the loss does not depend on it", i, len(g.all), g.all[i])
						}
						continue
					}
					learned++
					d := math.Abs((up-down)/(2*step) - float64(g.all[i]))
					worst = max(worst, d)
					if !(d <= 1e-6) {
						t.Errorf("weight %d of %d: gradient %g, differences %g", i, len(g.all), g.all[i], (up-down)/(2*step))
					}
				}
				t.Logf("largest difference %.1e, %d of %d weights", worst, learned, s.Parameters())
				want := s.Parameters()
				if kind == ARNN {
					want -= s.Units // the diagonal of W has no effect
				}
				if learned != want {
					t.Errorf("%d weights have a gradient, want %d", learned, want)
				}
			})
		}
	}
}
