package baseline

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/offline/internal/descent"
)

// plainScores is the package comment, word for word, for one series.
func plainScores(n *Network, one Series) []float64 {
	s, w := n.Spec, &n.weights
	size, h := s.Units, make([]float64, s.Units)
	in := func(x []float32, column int) (sum float64) {
		for c, v := range x {
			sum += float64(v) * w.input.Row(c)[column]
		}
		return sum
	}
	back := func(column int) (sum float64) {
		for i, v := range h {
			sum += v * w.recurrent.Row(i)[column]
		}
		return sum
	}
	for x := range slices.Chunk(one.Values, s.Channels) {
		next := make([]float64, size)
		for j := range next {
			switch s.Kind {
			case RNN:
				next[j] = math.Tanh(in(x, j) + back(j) + w.bias[j])
			case ARNN:
				turned := 0.0
				for i, v := range h {
					turned += v * w.recurrent.Row(j)[i]
				}
				next[j] = h[j] + s.Eps*math.Tanh(in(x, j)+back(j)-turned-s.Gamma*h[j]+w.bias[j])
			case GRU:
				z := descent.Sigmoid(in(x, j) + back(j) + w.bias[j] + w.inner[j])
				r := descent.Sigmoid(in(x, size+j) + back(size+j) + w.bias[size+j] + w.inner[size+j])
				y := math.Tanh(in(x, 2*size+j) + w.bias[2*size+j] + r*(back(2*size+j)+w.inner[2*size+j]))
				next[j] = z*h[j] + (1-z)*y
			}
		}
		h = next
	}
	scores := slices.Clone(w.outBias)
	for i, v := range h {
		for k := range scores {
			scores[k] += v * w.output.Row(i)[k]
		}
	}
	return scores
}

// The scores of series that are computed together are the equations', except for
// the rounding of sums in another order, and bit for bit those of each series
// alone.
func TestForwardIsTheEquations(t *testing.T) {
	for _, kind := range kinds {
		n := network(t, Spec{Kind: kind, Units: 11, Channels: 2, Classes: 3, Eps: 0.2, Gamma: 0.1, Seed: 3})
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range n.weights.all {
			n.weights.all[i] += 0.2 * rng.NormFloat64()
		}
		n.refresh()
		series := byLength(noise(4, rows-3, 2, 3, 1, 40))
		n.tape.load(n.Spec, series)
		n.forward()
		together := n.tape.scores.Clone()
		for i, one := range series {
			n.tape.load(n.Spec, []Series{one})
			n.forward()
			if alone := n.tape.scores.Row(0); !slices.Equal(alone, together.Row(i)) {
				t.Errorf("%s: series %d alone %v, in company %v", kind, i, alone, together.Row(i))
			}
			for k, want := range plainScores(n, one) {
				if got := together.Row(i)[k]; !(math.Abs(got-want) < 1e-12) {
					t.Errorf("%s: series %d, class %d: score %v, want %v", kind, i, k, got, want)
				}
			}
		}
	}
}

// Numbers of parameters as the paper's appendix prints them.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		kind                           Kind
		units, channels, classes, want int
	}{
		{RNN, 190, 1, 37, 43547}, {ARNN, 170, 1, 37, 35567}, {GRU, 90, 1, 37, 28477}, // Adiac
		{RNN, 100, 4, 2, 10601}, {ARNN, 80, 4, 2, 6881}, {GRU, 130, 4, 2, 53171}, // Blink
	} {
		s := Spec{Kind: c.kind, Units: c.units, Channels: c.channels, Classes: c.classes}
		if got := s.Parameters(); got != c.want {
			t.Errorf("%s of %d units: %d parameters, want %d", c.kind, c.units, got, c.want)
		}
	}
}

func TestFirstWeights(t *testing.T) {
	for _, kind := range kinds {
		n := network(t, Spec{Kind: kind, Units: 40, Channels: 3, Classes: 5, Eps: 0.1, Gamma: 0.01, Seed: 1})
		w := n.weights.recurrent
		square := dense.New(40, 40)
		dense.Multiply(square, 1, w, false, w, true)
		for i := range 40 {
			for j, v := range square.Row(i) {
				want := 0.0
				if i == j {
					want = 1
				}
				if math.Abs(v-want) > 1e-14 { // 120 products of numbers below 1
					t.Fatalf("%s: rows %d and %d of the recurrent weights have product %g", kind, i, j, v)
				}
			}
		}
		for _, b := range [][]float64{n.weights.bias, n.weights.inner, n.weights.outBias} {
			if slices.ContainsFunc(b, func(v float64) bool { return v != 0 }) {
				t.Errorf("%s: biases begin as %v", kind, b)
			}
		}
		if limit := math.Sqrt(6. / 45); slices.ContainsFunc(n.weights.output.Data, func(v float64) bool { return math.Abs(v) > limit || v == 0 }) {
			t.Errorf("%s: output weights beyond %g or 0", kind, limit)
		}
	}
}

func TestBadSpecs(t *testing.T) {
	good := Spec{Kind: ARNN, Units: 3, Channels: 1, Classes: 2, Eps: 0.1}
	for _, change := range []func(*Spec){
		func(s *Spec) { s.Kind = "lstm" },
		func(s *Spec) { s.Units = 0 },
		func(s *Spec) { s.Units = maxSize + 1 },
		func(s *Spec) { s.Channels = 0 },
		func(s *Spec) { s.Classes = 1 },
		func(s *Spec) { s.Eps = 0 },
		func(s *Spec) { s.Gamma = math.NaN() },
	} {
		s := good
		change(&s)
		if _, err := New(s); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
