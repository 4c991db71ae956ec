// Package canon is the arithmetic every engine must reproduce bit for bit:
// float32 fused multiply-add, rounded once, and our own tanh. It imports
// nothing of this project.
package canon

import "math"

// FMA returns a*b + c rounded once to float32, as a hardware float32 fused
// multiply-add does. The product is exact in float64; the float64 sum may
// round, and rounding it again to float32 is wrong only when it landed exactly
// between two float32 values, so only then (and for results near the float32
// subnormals, whose rounding position differs) the exact sum is consulted.
func FMA(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if u := math.Float64bits(s); u&(1<<29-1) != 1<<28 && u>>52&0x7ff > 1023-126 {
		return float32(s)
	}
	return roundOnce(p, float64(c), s)
}

// roundOnce rounds p + c to float32 through a float64 rounded to odd: 53 bits
// are more than 24+2, so the second rounding is then always right (Boldo and
// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms
// using rounding to odd", IEEE Trans. Computers 2008).
func roundOnce(p, c, s float64) float32 {
	if math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	// Knuth's two-sum: p + c = s + e exactly. Every intermediate is
	// converted explicitly so that no compiler fuses it.
	pp := float64(s - c)
	cc := float64(s - pp)
	e := float64(p-pp) + float64(c-cc)
	u := math.Float64bits(s)
	if e != 0 && u&1 == 0 {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}
