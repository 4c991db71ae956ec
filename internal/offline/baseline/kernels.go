package baseline

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

//go:generate go run -C _asm . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg baseline

// lanes are the float32 of a vector. Widths are rounded up to whole vectors.
const lanes = 8

// kernels are the time-critical functions: for AVX2 in assembly, otherwise in plain Go.
// Both compute the same bits and check no arguments. Strides count float32; units are
// whole vectors; rows and depth at least 1.
type kernels struct {
	name string

	// product, indexed by the vectors of its columns, is the function product, of 4*quads
	// rows.
	product [3]func(c []float32, cStride int, a []float32, aRow, aCol int, b []float32, bStride, depth, quads int)

	// eulerForward replaces arguments a by their tanh:
	//
	//	a = tanh(a)    next = fma(gain, a, keep*h)
	eulerForward func(table, a []float32, aStride int, h, next []float32, hStride int, keep, gain float32, units, rows int)

	// eulerBackward replaces a tanh by the gradient of its argument. d is the gradient of
	// the next state, back the part of the previous state's gradient that bypasses the
	// argument.
	//
	//	a = gain*d * fma(-a, a, 1)    back = keep*d
	eulerBackward func(a []float32, aStride int, d, back []float32, dStride int, keep, gain float32, units, rows int)

	// gruForward replaces arguments by gates:
	//
	//	z = sigmoid(z+uz)    r = sigmoid(r+ur)    y = tanh(fma(r, uy, y))
	//	next = fma(z, h-y, y)
	//
	// with sigmoid(x) = fma(tanh(x/2), 1/2, 1/2).
	gruForward func(table, z, r, y, uz, ur, uy []float32, stride int, h, next []float32, hStride, units, rows int)

	// gruBackward replaces z, r and y by the gradients of the arguments from input, and
	// uz, ur and uy by the gradients of the arguments from the state.
	gruBackward func(z, r, y, uz, ur, uy []float32, stride int, h []float32, hStride int, d, back []float32, dStride, units, rows int)

	// adamStep moves weights, whole vectors, and clears the gradient:
	//
	//	mean = fma(1-beta1, g-mean, mean)    square = fma(1-beta2, fma(g, g, -square), square)
	//	w = w - rate*mean/(sqrt(square)+epsilon)
	adamStep func(w, g, mean, square []float32, rate float32)
}

// active is the fastest set of kernels on this machine.
var active = fastest()

var plain = kernels{"plain", [3]func(c []float32, cStride int, a []float32, aRow, aCol int, b []float32, bStride, depth, quads int){
	plainProduct(lanes), plainProduct(2 * lanes), plainProduct(3 * lanes),
}, plainEulerForward, plainEulerBackward, plainGRUForward, plainGRUBackward, plainAdam}

// table holds the coefficients of canon.Tanh for the kernels.
var table = func() (t []float32) {
	for k := range canon.TanhTable {
		t = append(t, canon.TanhTable[k][:]...)
	}
	return t
}()

func plainProduct(columns int) func(c []float32, cStride int, a []float32, aRow, aCol int, b []float32, bStride, depth, quads int) {
	return func(c []float32, cStride int, a []float32, aRow, aCol int, b []float32, bStride, depth, quads int) {
		for i := range 4 * quads {
			sums := c[i*cStride:][:columns]
			for k := range depth {
				x := a[i*aRow+k*aCol]
				for j, v := range b[k*bStride:][:columns] {
					sums[j] = canon.FMA(x, v, sums[j])
				}
			}
		}
	}
}

func plainEulerForward(_, a []float32, aStride int, h, next []float32, hStride int, keep, gain float32, units, rows int) {
	for i := range rows {
		before, after := h[i*hStride:][:units], next[i*hStride:][:units]
		for j, v := range a[i*aStride:][:units] {
			v = canon.Tanh(v)
			a[i*aStride+j] = v
			after[j] = canon.FMA(gain, v, float32(keep*before[j]))
		}
	}
}

func plainEulerBackward(a []float32, aStride int, d, back []float32, dStride int, keep, gain float32, units, rows int) {
	for i := range rows {
		to := back[i*dStride:][:units]
		for j, g := range d[i*dStride:][:units] {
			v := a[i*aStride+j]
			a[i*aStride+j] = float32(gain*g) * canon.FMA(-v, v, 1)
			to[j] = keep * g
		}
	}
}

func plainGRUForward(_, z, r, y, uz, ur, uy []float32, stride int, h, next []float32, hStride, units, rows int) {
	sigmoid := func(x float32) float32 { return canon.FMA(canon.Tanh(x/2), 0.5, 0.5) }
	for i := range rows {
		after := next[i*hStride:][:units]
		for j, before := range h[i*hStride:][:units] {
			k := i*stride + j
			z[k], r[k] = sigmoid(z[k]+uz[k]), sigmoid(r[k]+ur[k])
			y[k] = canon.Tanh(canon.FMA(r[k], uy[k], y[k]))
			after[j] = canon.FMA(z[k], before-y[k], y[k])
		}
	}
}

func plainGRUBackward(z, r, y, uz, ur, uy []float32, stride int, h []float32, hStride int, d, back []float32, dStride, units, rows int) {
	for i := range rows {
		before, to := h[i*hStride:][:units], back[i*dStride:][:units]
		for j, g := range d[i*dStride:][:units] {
			k := i*stride + j
			zk, rk, yk := z[k], r[k], y[k]
			dy := float32(g*(1-zk)) * canon.FMA(-yk, yk, 1)
			dr := float32(dy*uy[k]) * float32((1-rk)*rk)
			dz := float32(g*(before[j]-yk)) * float32(zk*(1-zk))
			z[k], r[k], y[k] = dz, dr, dy
			uz[k], ur[k], uy[k] = dz, dr, dy*rk
			to[j] = g * zk
		}
	}
}

func plainAdam(w, g, mean, square []float32, rate float32) {
	for i, v := range g {
		m, s := mean[i], square[i]
		m = canon.FMA(1-beta1, v-m, m)
		s = canon.FMA(1-beta2, canon.FMA(v, v, -s), s)
		mean[i], square[i] = m, s
		w[i] -= float32(float32(rate*m) / (float32(math.Sqrt(float64(s))) + epsilon))
	}
	clear(g)
}
