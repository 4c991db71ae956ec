package novelty

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// Usual predicts the squared residual of sequences like the training's, by their place within
// the subspace. Classes differ in their residuals: the usual residual of a loud class is too
// large for a quiet class. With t the products with the leading directions, the residual is
// divided by exp(x),
//
//	x = Offset + the sum of Linear[i] t[i] + Square[i] t[i]^2, limited to [0, Most]
//
// Between directions, the first ones, are no part of the subspace: they are orthogonal neither
// to each other nor to the rest, and a vector's part along these directions stays in its
// residual.
type Usual struct {
	Offset float32   `json:"offset"`
	Most   float32   `json:"most"` // exp(Most) is the largest usual residual over the smallest
	Linear []float32 `json:"-"`    // of each direction, from the first
	Square []float32 `json:"-"`    // as many

	Between int `json:"between,omitempty"` // see package internal/detect: "Between classes"
}

// MostUsual bounds Usual.Most.
const MostUsual = 64

func (u *Usual) checkUsual(dims int, bad func(format string, args ...any)) {
	if u == nil {
		return
	}
	if n := len(u.Linear); n == 0 || n > dims || len(u.Square) != n {
		bad("usual residuals from %d and %d values, want as many squares, and 1 to %d, the directions", n, len(u.Square), dims)
	}
	if u.Between < 0 || u.Between > len(u.Linear) {
		bad("%d directions between classes of %d that usual residuals read, want at most as many", u.Between, len(u.Linear))
	}
	if !(u.Most >= 0 && u.Most <= MostUsual) || !(math.Abs(float64(u.Offset)) <= math.MaxFloat32) {
		bad("usual residuals with the offset %v up to %v, want a finite number and one from 0 to %d", u.Offset, u.Most, MostUsual)
	}
	for _, v := range slices.Concat(u.Linear, u.Square) {
		if !(math.Abs(float64(v)) <= math.MaxFloat32) {
			bad("usual residuals with the value %v, want finite numbers", v)
			return
		}
	}
}

// over returns 1/exp(x): in float64, each product rounded separately, in the order of the
// directions, the linear product first.
func (u *Usual) over(within []float32) float64 {
	x := float64(u.Offset)
	for i, v := range u.Linear {
		t := float64(within[i])
		x += float64(float64(v) * t)
		x += float64(float64(u.Square[i]) * float64(t*t))
	}
	if !(x > 0) { // also if x is not a number
		return 1
	}
	return canon.ExpNegative(min(x, float64(u.Most)))
}
