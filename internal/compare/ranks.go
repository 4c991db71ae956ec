package compare

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// rankScores returns the rank of each score, 1 for the highest; equal scores get the
// average of their ranks.
func rankScores(scores []float64) []float64 {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	r := make([]float64, len(scores))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && scores[order[to]] == scores[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			r[i] = float64(from+1+to) / 2
		}
		from = to
	}
	return r
}

// averageRanks returns the mean over the rows of their scores' ranks.
func averageRanks(rows [][]float64) []float64 {
	mean := make([]float64, len(rows[0]))
	for _, row := range rows {
		for j, r := range rankScores(row) {
			mean[j] += r / float64(len(rows))
		}
	}
	return mean
}

// friedman tests whether the columns of rows differ: the chi-square statistic, corrected
// for ties, and the probability of a statistic at least as large by chance, in the limit
// of many rows.
func friedman(rows [][]float64) (statistic, p float64) {
	n, k := float64(len(rows)), float64(len(rows[0]))
	sums, ties := make([]float64, len(rows[0])), 0.0
	for _, row := range rows {
		count := map[float64]float64{}
		for j, r := range rankScores(row) {
			sums[j] += r
			count[r]++
		}
		for _, t := range count { // whole numbers: their sum is exact in any order
			ties += t*t*t - t
		}
	}
	correction := 1 - ties/(n*k*(k*k-1))
	if correction <= 0 {
		return 0, 1 // all equal
	}
	squares := 0.0
	for _, s := range sums {
		squares += float64(s * s)
	}
	statistic = max(0, (12/(n*k*(k+1))*squares-3*n*(k+1))/correction)
	return statistic, mathext.GammaIncRegComp((k-1)/2, statistic/2)
}

// criticalDifference returns the least difference of average ranks of k methods on n data
// sets that is significant at level .05 by Nemenyi's test.
func criticalDifference(k, n int) float64 {
	return studentisedRange(.95, k) / math.Sqrt2 * math.Sqrt(float64(k*(k+1))/float64(6*n))
}

// studentisedRange returns the quantile of the range of k standard normal numbers, at
// which
//
//	P(range <= q) = k * integral of phi(z) (Phi(z) - Phi(z-q))^(k-1) dz
//
// is p. k is at least 2.
func studentisedRange(p float64, k int) float64 {
	lo, hi := 0.0, 20.0
	for range 60 {
		if q := (lo + hi) / 2; rangeProbability(q, k) < p {
			lo = q
		} else {
			hi = q
		}
	}
	return hi
}

// rangeProbability integrates by the trapezoidal rule, which converges faster than any
// power for such an integrand; the part beyond 9 is less than rounding.
func rangeProbability(q float64, k int) float64 {
	const step, end = 1. / 16, 9.
	sum := 0.0
	for z := -end; z <= end; z += step {
		sum += math.Exp(-z*z/2) * math.Pow(normal(z)-normal(z-q), float64(k-1))
	}
	return float64(k) * step / math.Sqrt(2*math.Pi) * sum
}

// normal is the standard normal distribution function.
func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
