package machine

import (
	"math"
	"math/rand/v2"

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
