package canon

import "math"

// The standard library's Exp does not promise the same bits everywhere: some
// platforms have assembly for it, and on others the compiler may fuse a
// product and a sum. So this is a polynomial of math.FMA, which rounds once by
// definition, and products are kept from being fused by an explicit float64
// conversion.

// ExpNegative is exp(-x) for x >= 0, with a relative error below 5e-16 up to 1
// and 3e-13 beyond, the same bits on every platform. 0 where exp(-x) is not
// normal.
func ExpNegative(x float64) float64 {
	if x > 708 {
		return 0
	}
	squares := 0
	for ; x > 1; squares++ {
		x /= 2
	}
	y := Taylor(-x, expTerms)
	for range squares {
		y = float64(y * y)
	}
	return y
}

var expTerms = []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}

// Taylor is 1 + z/d[0] (1 + z/d[1] (1 + ...)).
func Taylor(z float64, d []float64) float64 {
	sum := 1.0
	for k := len(d) - 1; k >= 0; k-- {
		sum = math.FMA(z/d[k], sum, 1)
	}
	return sum
}
