package baseline

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/offline/descent"
)

// exact is a network's weights in float64, with an independent layout.
type exact struct {
	layout
	all []float64
}

func exactWeights(n *Network) exact {
	e := exact{n.layout, nil}
	for _, v := range n.weights.all {
		e.all = append(e.all, float64(v))
	}
	return e
}

// elementAt returns an element of the matrix that begins at from and has cols columns.
func (e exact) elementAt(from, cols, row, column int) float64 { return e.all[from+row*cols+column] }

// scores implements the package comment, word for word, for one series.
func (e exact) scores(one Series) []float64 {
	size, h := e.Units, make([]float64, e.Units)
	cell := func(row, gate, j int) float64 { return e.elementAt(0, e.wide, row, gate*e.units+j) }
	rows := e.units + e.tail
	input := func(row, gate, j int) float64 { return cell(e.units+row, gate, j) } // bias, then weights
	if e.Kind == GRU {
		rows = e.units + 4
		input = func(row, gate, j int) float64 { return e.elementAt(rows*e.wide, e.wide, row, gate*e.units+j) }
	}
	in := func(x []float32, gate, j int) float64 {
		sum := input(0, gate, j)
		for c, v := range x {
			sum += float64(v) * input(1+c, gate, j)
		}
		return sum
	}
	back := func(gate, j int) (sum float64) {
		for i, v := range h {
			sum += v * cell(i, gate, j)
		}
		return sum
	}
	for x := range slices.Chunk(one.Values, e.Channels) {
		next := make([]float64, size)
		for j := range next {
			switch e.Kind {
			case RNN:
				next[j] = math.Tanh(in(x, 0, j) + back(0, j))
			case ARNN:
				turned := 0.0
				for i, v := range h {
					turned += v * cell(j, 0, i)
				}
				next[j] = h[j] + e.Eps*math.Tanh(in(x, 0, j)+back(0, j)-turned-e.Gamma*h[j])
			case GRU:
				c := func(gate int) float64 { return cell(e.units, gate, j) }
				z := descent.Sigmoid(in(x, 0, j) + back(0, j) + c(0))
				r := descent.Sigmoid(in(x, 1, j) + back(1, j) + c(1))
				y := math.Tanh(in(x, 2, j) + r*(back(2, j)+c(2)))
				next[j] = z*h[j] + (1-z)*y
			}
		}
		h = next
	}
	from := rows * e.wide
	if e.Kind == GRU {
		from += e.tail * e.wide
	}
	scores := make([]float64, e.Spec.outputs())
	for k := range scores {
		scores[k] = e.elementAt(from, e.outputs, e.units, k)
		for i, v := range h {
			scores[k] += v * e.elementAt(from, e.outputs, i, k)
		}
	}
	return scores
}

// disturb changes all weights, including biases.
func disturb(n *Network, deviation float64) {
	rng := rand.New(rand.NewPCG(8, 9))
	l, w := n.layout, &n.weights
	shake := func(m matrix, rows, gates, columns int) {
		for i := range rows {
			for j := range gates * columns {
				m.row(i)[j/columns*(m.cols/gates)+j%columns] += float32(deviation * rng.NormFloat64())
			}
		}
	}
	shake(w.cell, l.Units, l.gates(), l.Units)
	shake(w.cell.part(l.units, 0, 1, l.wide), 1, l.gates(), l.Units)
	shake(l.samples(*w), l.Channels, l.gates(), l.Units)
	if l.Kind == GRU {
		shake(w.input, 1, l.gates(), l.Units)
	}
	shake(w.output, l.Units, 1, l.Spec.outputs())
	shake(w.output.part(l.units, 0, 1, l.outputs), 1, 1, l.Spec.outputs())
	n.refresh()
}

// The scores of series in a batch follow the equations, except for the rounding of
// float32, and equal the scores of separate series bit for bit.
func TestForwardIsTheEquations(t *testing.T) {
	for _, kind := range kinds {
		n := newNetwork(t, Spec{Kind: kind, Units: 11, Channels: 2, Classes: 3, Eps: 0.2, Gamma: 0.1, Seed: 3})
		disturb(n, 0.2)
		series, truth := byLength(noise(4, rows-3, 2, 3, 1, 40)), exactWeights(n)
		n.tape.load(n.layout, series)
		n.forward()
		var together [][]float32
		for i := range series {
			together = append(together, slices.Clone(n.tape.scores.row(i)))
		}
		for i, one := range series {
			n.tape.load(n.layout, []Series{one})
			n.forward()
			if alone := n.tape.scores.row(0); !slices.Equal(alone, together[i]) {
				t.Errorf("%s: series %d alone %v, in company %v", kind, i, alone, together[i])
			}
			for k, want := range truth.scores(one) {
				// 40 steps of sums of 14 terms of about 1, half a unit of 2^-23 each
				if got := float64(together[i][k]); !(math.Abs(got-want) < 2e-5) {
					t.Errorf("%s: series %d, class %d: score %v, want %v", kind, i, k, got, want)
				}
			}
		}
	}
}

// Numbers of parameters as printed in the paper's appendix.
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
		n := newNetwork(t, Spec{Kind: kind, Units: 40, Channels: 3, Classes: 5, Eps: 0.1, Gamma: 0.01, Seed: 1})
		l, w := n.layout, n.weights
		size, wide := 40, 40*l.gates()
		for i := range size {
			for j := range size {
				product, want := 0.0, 0.0
				for k, v := range w.cell.row(i)[:wide] {
					product += float64(v) * float64(w.cell.row(j)[k])
				}
				if i == j {
					want = 1
				}
				if math.Abs(product-want) > 1e-6 { // 120 products of numbers below 1, rounded to float32
					t.Fatalf("%s: rows %d and %d of the recurrent weights have product %g", kind, i, j, product)
				}
			}
		}
		biases := [][]float32{w.cell.row(l.units), w.output.row(l.units)}
		if kind == GRU {
			biases = append(biases, w.input.row(0))
		}
		for _, b := range biases {
			if slices.ContainsFunc(b, func(v float32) bool { return v != 0 }) {
				t.Errorf("%s: biases begin as %v", kind, b)
			}
		}
		limit := math.Sqrt(6. / 45)
		for i := range size {
			if slices.ContainsFunc(w.output.row(i)[:5], func(v float32) bool { return math.Abs(float64(v)) > limit || v == 0 }) {
				t.Errorf("%s: output weights beyond %g or 0", kind, limit)
			}
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
