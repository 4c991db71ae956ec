package quality

import "math"

// chance returns the mean calibration error of samples if every probability is exactly right:
// p are the probabilities of the predicted class, by bin. Each of n predictions is then right
// with its own probability, so that a bin's number of right predictions seldom equals their
// sum.
func chance(p [bins][]float64, n int) float64 {
	sum := 0.0
	for _, bin := range p {
		sum += deviation(bin)
	}
	return sum / float64(n)
}

// deviation returns the mean distance of the number of successes from its mean, each success
// having its own probability: the Poisson binomial distribution, exact to rounding up to a
// variance of 100; above, the normal distribution, with an error below a thousandth.
func deviation(p []float64) float64 {
	successes, variance := 0.0, 0.0
	for _, v := range p {
		successes += v
		variance += v * (1 - v)
	}
	if variance >= 100 {
		return math.Sqrt(2 * variance / math.Pi)
	}
	// Failures are as far from their mean as successes: count the rarer outcome.
	failures := 2*successes > float64(len(p))
	mean := successes
	if failures {
		mean = float64(len(p)) - successes
	}
	// At a mean of at most 2 variances, for example if no p is above a half, a larger number
	// has no probability visible next to 1 in float64; otherwise there are few samples.
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
