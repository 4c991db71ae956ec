package machine

import (
	"math"
	"math/rand/v2"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// draw is the random numbers of a series.
type draw struct{ pcg *rand.PCG }

// newDraw returns the generator of a series of a part.
func newDraw(seed uint64, split archive.Split, i int) *draw {
	stream := uint64(i)
	if split == archive.Test {
		stream |= 1 << 63
	}
	return &draw{rand.NewPCG(seed, stream)}
}

// between is uniform in [lo, hi), of 53 random bits.
func (d *draw) between(lo, hi float64) float64 {
	return math.FMA(hi-lo, float64(d.pcg.Uint64()>>11)/(1<<53), lo)
}

// below is a whole number from 0 to n-1.
func (d *draw) below(n int) int { return int(d.between(0, float64(n))) }

// normal is standard normal by the sum of twelve uniforms, minus 6: without a logarithm,
// whose last bit may differ, and with an exact sum of integers. Its tails end at 6
// deviations, which is irrelevant for sensor noise here.
func (d *draw) normal() float64 {
	var sum uint64
	for range 12 {
		sum += d.pcg.Uint64() >> 12
	}
	return float64(sum)/(1<<52) - 6
}

// The simulated machine must have the same bits on all platforms. The standard library's
// Sin and Exp do not promise equal bits (see canon.ExpNegative). So the functions here
// are polynomials of math.FMA, and callers prevent the fusion of a product by an explicit
// float64 conversion or request the fused form.

// sine is sin(2 pi turn), to about 1e-15 for |turn| below 1e3.
func sine(turn float64) float64 {
	turn -= math.Floor(turn + 0.5)
	switch { // fold to the quarter turns around 0
	case turn > 0.25:
		turn = 0.5 - turn
	case turn < -0.25:
		turn = -0.5 - turn
	}
	x := float64(2 * math.Pi * turn)
	return float64(x * canon.Taylor(-float64(x*x), sineTerms))
}

// sineTerms k: 1/(2k+1)! divided by the previous term.
var sineTerms = []float64{2 * 3, 4 * 5, 6 * 7, 8 * 9, 10 * 11, 12 * 13, 14 * 15, 16 * 17, 18 * 19, 20 * 21}
