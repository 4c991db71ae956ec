package canon

import "math"

//go:generate go run ./fit -o table.go

// Tanh is the canonical hyperbolic tangent. |x| falls into one of 16
// logarithmically spaced intervals, chosen by bits 21..24 of v = |x| + 0.625,
// and a polynomial of degree 5 in d = |x| - edge, the exact distance to the
// interval's lower edge, is evaluated by Horner's rule with FMA:
// r = TanhTable[5], then r = FMA(r, d, TanhTable[k]) for k = 4 to 0; at most 1,
// with the sign of x. The edge is v with its low 21 bits cleared, less 0.625: no
// table, no rounding. An |x| beyond Saturation is taken for Saturation.
//
// Odd; exact at zeros, subnormals and wherever tanh(x) rounds to x; exactly
// 1 beyond Saturation; never above 1; NaN stays NaN. The largest relative
// error is stated at TanhError. The intervals are so few that one coefficient
// of all of them fits one 512-bit register (a single permute fetches 16 lanes
// on AVX-512, two and a blend on AVX2, one TBL on NEON, one conflict-free
// shared-memory access on a GPU).
func Tanh(x float32) float32 {
	if x != x {
		return x
	}
	bits := math.Float32bits(x)
	a := math.Float32frombits(bits &^ signBit)
	if a > Saturation {
		a = Saturation
	}
	v := math.Float32bits(a + TanhShift)
	d := a - (math.Float32frombits(v&^(1<<21-1)) - TanhShift)
	i := v >> 21 & 15
	r := TanhTable[5][i]
	for k := 4; k >= 0; k-- {
		r = FMA(r, d, TanhTable[k][i])
	}
	if r > 1 {
		r = 1
	}
	return math.Float32frombits(math.Float32bits(r) | bits&signBit)
}

const (
	signBit = 1 << 31
	// TanhShift makes the intervals: |x| + TanhShift stays within 16
	// quarter octaves from 0.625 to 10.
	TanhShift float32 = 0.625
	// Saturation is the first |x| whose Tanh is 1 for good; tanh itself
	// rounds to 1 from 9.0109 on.
	Saturation float32 = 9.015625
	// TanhError bounds |Tanh(x) - tanh(x)| / |tanh(x)| over all float32.
	TanhError = 9.1e-8
)
