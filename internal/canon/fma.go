package canon

import "math"

// FMA returns a*b + c rounded once to float32, as a hardware float32 fused
// multiply-add does.
func FMA(a, b, c float32) float32 { return float32(Round(float64(a)*float64(b), float64(c))) }

// Round returns p + c rounded once to float32, held in a float64, where p is
// the exact product of two float32 and c is a float32 value.
func Round(p, c float64) float64 {
	s := p + c
	if !Awkward(s) {
		return float64(float32(s))
	}
	return float64(roundOnce(p, c, s))
}

// Awkward reports whether rounding the float64 sum s of an exact product and a
// float32 to float32 could differ from rounding the exact sum: only where s
// landed exactly between two float32 values, or near the subnormals, whose
// rounding position is elsewhere. Hot loops test it themselves, because the
// test inlines and Round does not.
func Awkward(s float64) bool {
	u := math.Float64bits(s)
	return u<<35 == 1<<63 || u<<1 < (1023-125)<<53
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
