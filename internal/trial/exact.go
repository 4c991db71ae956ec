package trial

import "math"

// McNemar returns the two-sided p of McNemar's exact test: b and c are the numbers of sequences for
// which only one readout was right.
func McNemar(b, c int) float64 {
	return min(1, 2*atMost(b+c, min(b, c), .5))
}

// Better returns the probability of c or more if both readouts are right equally often.
func Better(b, c int) float64 { return atLeast(b+c, c, .5) }

// Loss returns the upper bound of the shadow's loss of correct answers, as a share of all
// sequences, with error probability e: of n sequences, only one readout was right for b and c.
func Loss(n, b, c int, e float64) float64 { return upper(n, b, e/2) - lower(n, c, e/2) }

// upper and lower are Clopper and Pearson's bounds of a probability, given k of n trials.
func upper(n, k int, e float64) float64 {
	if k >= n {
		return 1
	}
	_, hi := bisect(func(p float64) bool { return atMost(n, k, p) > e })
	return hi
}

func lower(n, k int, e float64) float64 {
	if k <= 0 {
		return 0
	}
	lo, _ := bisect(func(p float64) bool { return atLeast(n, k, p) <= e })
	return lo
}

// bisect encloses the end of below in [0, 1].
func bisect(below func(float64) bool) (lo, hi float64) {
	hi = 1
	for range 60 {
		if mid := (lo + hi) / 2; below(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, hi
}

// atMost returns P(X <= k) of a binomial X.
func atMost(n, k int, p float64) float64 { return atLeast(n, n-k, 1-p) }

// atLeast returns P(X >= k) of a binomial X with n trials of probability p.
func atLeast(n, k int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case p >= 1:
		return 1
	case float64(k) < float64(n)*p: // the other side has the smaller terms
		return 1 - atLeast(n, n-k+1, 1-p)
	}
	lg := func(x int) float64 { y, _ := math.Lgamma(float64(x) + 1); return y }
	term := math.Exp(lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	sum := 0.0
	for i := k; i <= n && term > sum*1e-18; i++ { // the terms fall from k on
		sum += term
		term *= float64(n-i) / float64(i+1) * (p / (1 - p))
	}
	return min(1, sum)
}
