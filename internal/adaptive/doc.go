// Package adaptive keeps the coverage of sets of classes when the data change, from late
// labels: adaptive conformal inference (I. Gibbs, E. Candes: Adaptive conformal inference
// under distribution shift, NeurIPS 2021).
//
// A readout's sets are made for a level, such as 0.95: a share a = 1 - level of the sets may
// lack the true class. If the data differ from the training, more or fewer sets lack the true
// class. So the sets act at another share, which each label moves: with err 1 if the true
// class was not in the set of its prediction, else 0,
//
//	a(t+1) = a(t) + rate (a - err(t)),   a(1) = a
//
// t counts labels in the order of arrival. After n labels, m of them missed, the share is
// a + rate (n a - m): the order of the misses does not matter, and a replay gives the same
// bits.
//
// Threshold returns the threshold on a class's probability at a share a(t). Its odds are the
// odds of the model's threshold times the odds of a(t) over the odds of a. So the threshold is
// the model's at a, and falls to 0, with every class in the set, as a(t) falls to 0. At 1 and
// above the set is empty. The paper takes the quantile of calibration scores; its proof needs
// only these two ends. A threshold of 0, of a class in every set because of too few sequences,
// stays 0 below a(t) = 1.
//
// For any data in any order, after n labels
//
//	|missed / n - a| <= (max(a, 1-a) + (late+1) rate) / (rate n)
//
// if a set is made with all labels except those of the last late predictions before it. For
// immediate labels, late = 0, the bound is Proposition 4.1 of the paper. Proof: a(t) leaves
// [0, 1] by (late+1) rate at most, because from late+1 labels after leaving the interval each
// label moves a(t) back; and missed / n - a = (a(1) - a(n+1)) / (rate n).
//
// # Numbers
//
// The interval of a regression is a value plus two numbers, low and high, such that a share b
// = (1 - level) / 2 of the true numbers is below the interval and as many are above. Each edge
// follows the labels separately: with half = (high - low) / 2 of the model, and above 1 if the
// number was above its interval, else 0,
//
//	high(t+1) = high(t) + rate half (above(t) - b),   high(1) = high
//
// and low in the opposite direction. This is quantile tracking (A. Angelopoulos, E. Candes, R.
// Tibshirani: Conformal PID control for time series prediction, NeurIPS 2023). Quantile
// tracking moves the edge itself, the method above the acting share: a share below 0 would be
// an interval without an end, and three successive misses suffice at 0.95 and a rate of 0.01.
// After n numbers, m of them above, high is the model's plus rate half (m - n b): the order
// does not matter here either.
//
// If the numbers less their values are in least..most, and late is as above, high stays in
// least - (late+1) b s .. most + (late+1) (1-b) s, s = rate half, or between this range and
// its start: below least each number is above high, so that high rises, and above most no
// number is. So
//
//	|m / n - b| <= max(most - high + (late+1) (1-b) s, high - least + (late+1) b s) / (s n)
//
// for any order of these numbers. The same holds for low.
//
// # Files
//
//   - walk.go: moves the threshold of sets from label to label
//   - edges.go: moves the edges of intervals from label to label
package adaptive
