package baseline

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/offline/internal/descent"
)

// forward runs the loaded series and leaves the scores of the output layer.
func (n *Network) forward() {
	t, w := &n.tape, &n.weights
	dense.Multiply(t.a, 1, t.x, false, w.input, false)
	descent.AddRow(t.a, w.bias)
	for s, live := range t.live {
		before, after, a := block(t.h, s, live), block(t.h, s+1, live), block(t.a, s, live)
		if n.Spec.Kind == GRU {
			u := block(t.u, s, live)
			dense.MultiplyPacked(u, before, &n.ahead)
			descent.AddRow(u, w.inner)
			gruForward(a, u, before, after)
			continue
		}
		dense.MultiplyPacked(a, before, &n.ahead)
		keep, gain := n.euler()
		for i := range live {
			h, next, y := before.Row(i), after.Row(i), a.Row(i)
			for j, v := range y {
				v = math.Tanh(v)
				y[j] = v
				next[j] = float64(keep*h[j]) + float64(gain*v)
			}
		}
	}
	dense.Multiply(t.scores, 1, block(t.h, t.steps, rows), false, w.output, false)
	descent.AddRow(t.scores, w.outBias)
}

// euler gives the factors of the state and of the tanh in rnn and arnn.
func (n *Network) euler() (keep, gain float64) {
	if n.Spec.Kind == ARNN {
		return 1, n.Spec.Eps
	}
	return 0, 1
}

// backward adds the gradient of the loss to g. t.scores holds the gradient of
// the scores.
func (n *Network) backward(g *weights) {
	t, w := &n.tape, &n.weights
	dense.Multiply(g.output, 1, block(t.h, t.steps, rows), true, t.scores, false)
	descent.AddRows(g.outBias, t.scores)
	dense.Multiply(t.dh, 1, t.scores, false, w.output, true)
	argument := t.a // whose gradient reaches the state before through n.matrix
	if n.Spec.Kind == GRU {
		argument = t.u
	}
	for s := t.steps - 1; s >= 0; s-- {
		live := t.live[s]
		dh, back, a := block(t.dh, 0, live), block(t.back, 0, live), block(t.a, s, live)
		if n.Spec.Kind == GRU {
			gruBackward(dh, back, a, block(t.u, s, live), block(t.h, s, live))
		} else {
			keep, gain := n.euler()
			for i := range live {
				d, b, y := dh.Row(i), back.Row(i), a.Row(i)
				for j, v := range y {
					y[j] = gain * d[j] * (1 - float64(v*v))
					b[j] = keep * d[j]
				}
			}
		}
		clear(t.a.Data[(s*rows+live)*t.a.Cols : (s+1)*rows*t.a.Cols]) // the others have no such step
		if s > 0 {
			dense.MultiplyPacked(back, block(argument, s, live), &n.back)
		}
		t.dh, t.back = t.back, t.dh
	}
	dense.Multiply(g.input, 1, t.x, true, t.a, false)
	descent.AddRows(g.bias, t.a)
	states := t.h.Sub(0, 0, t.steps*rows, t.h.Cols)
	switch n.Spec.Kind {
	case ARNN: // through W - W'
		d := dense.New(n.Spec.Units, n.Spec.Units)
		dense.Multiply(d, 1, states, true, argument, false)
		for i := range d.Rows {
			for j := range d.Cols {
				g.recurrent.Data[i*d.Cols+j] += d.Data[i*d.Cols+j] - d.Data[j*d.Cols+i]
			}
		}
	case GRU:
		descent.AddRows(g.inner, argument)
		fallthrough
	default:
		dense.Multiply(g.recurrent, 1, states, true, argument, false)
	}
}

// gruForward turns the arguments a = x*W + b into z, r and y.
func gruForward(a, u, before, after dense.Matrix) {
	n := before.Cols
	for i := range a.Rows {
		z, r, y := thirds(a.Row(i), n)
		uz, ur, uy := thirds(u.Row(i), n)
		h, next := before.Row(i), after.Row(i)
		for j := range h {
			z[j], r[j] = descent.Sigmoid(z[j]+uz[j]), descent.Sigmoid(r[j]+ur[j])
			y[j] = math.Tanh(y[j] + float64(r[j]*uy[j]))
			next[j] = float64(z[j]*h[j]) + float64((1-z[j])*y[j])
		}
	}
}

// gruBackward turns a and u into the gradients of x*W + b and of h*U + c, and
// gives the part of the gradient of h that does not pass through U.
func gruBackward(dh, back, a, u, before dense.Matrix) {
	n := before.Cols
	for i := range a.Rows {
		z, r, y := thirds(a.Row(i), n)
		uz, ur, uy := thirds(u.Row(i), n)
		h, d, b := before.Row(i), dh.Row(i), back.Row(i)
		for j, g := range d {
			zj, rj, yj := z[j], r[j], y[j]
			dy := g * (1 - zj) * (1 - float64(yj*yj))
			dr := dy * uy[j] * rj * (1 - rj)
			dz := g * (h[j] - yj) * zj * (1 - zj)
			z[j], r[j], y[j] = dz, dr, dy
			uz[j], ur[j], uy[j] = dz, dr, dy*rj
			b[j] = g * zj
		}
	}
}

func thirds(v []float64, n int) (a, b, c []float64) { return v[:n], v[n : 2*n], v[2*n : 3*n] }
