package quality

import "math"

// chance is the calibration error that samples show in the mean where every probability
// is exactly right: p are those of the predicted class, by bin. Each of n predictions is
// then right with its own probability, so that a bin's number of right ones is seldom
// the sum of these.
func chance(p [bins][]float64, n int) float64 {
	sum := 0.0
	for _, bin := range p {
		sum += deviation(bin)
	}
	return sum / float64(n)
}

// deviation is the mean distance of the number of successes from its mean, each success
// having its own probability: the Poisson binomial distribution, exact to rounding as
// far as its variance is below 100; beyond it the normal distribution's, which is less
// than a thousandth off.
func deviation(p []float64) float64 {
	successes, variance := 0.0, 0.0
	for _, v := range p {
		successes += v
		variance += v * (1 - v)
	}
	if variance >= 100 {
		return math.Sqrt(2 * variance / math.Pi)
	}
	// Failures are as far from their mean as successes: count what is rarer.
	failures := 2*successes > float64(len(p))
	mean := successes
	if failures {
		mean = float64(len(p)) - successes
	}
	// At a mean of at most 2 variances, as where none is above a half, more than this has
	// no chance that a float64 next to 1 would show; elsewhere there are few samples.
	most := min(len(p), int(mean+12*math.Sqrt(mean+1))+30)
	of := make([]float64, most+1)
	of[0] = 1
	for i, v := range p {
		if failures {
			v = 1 - v
		}
		for k := min(i+1, most); k > 0; k-- {
			of[k] = of[k]*(1-v) + of[k-1]*v
		}
		of[0] *= 1 - v
	}
	sum := 0.0
	for k, v := range of {
		sum += v * math.Abs(float64(k)-mean)
	}
	return sum
}
