// Package adaptive keeps the coverage of sets of classes where the data change, from
// labels that come later: adaptive conformal inference (I. Gibbs, E. Candes: Adaptive
// conformal inference under distribution shift, NeurIPS 2021).
//
// A readout's sets are made for a level, such as 0.95: a share a = 1 - level of them may
// lack the true class. Where the data are no longer those of the training, more or fewer
// lack it. So the sets act at another share, which each label moves: with err 1 where the
// true class was not in the set of its prediction, else 0,
//
//	a(t+1) = a(t) + rate (a - err(t)),   a(1) = a
//
// t counts labels in the order in which they arrive. After n labels, m of them missed, that
// is a + rate (n a - m): the order in which they were missed says nothing more, and a
// replay gives the same bits.
//
// Threshold is the threshold on a class's probability at a share a(t). Its odds are those
// of the model's threshold times those of a(t) over those of a. So it is the model's at
// a, and it falls to 0, where each class is in the set, as a(t) falls to 0. At 1 and above
// no class is in the set. The paper takes the quantile of calibration scores; what it
// proves needs only these two ends. A threshold of 0, of a class that is in every set for
// want of sequences, stays 0 below a(t) = 1.
//
// Whatever the data, and in whatever order they come, after n labels
//
//	|missed / n - a| <= (max(a, 1-a) + (late+1) rate) / (rate n)
//
// if a set is made with all labels but those of the last late predictions before it. For
// labels that are there at once, late = 0, that is Proposition 4.1 of the paper. Proof: a(t)
// leaves [0, 1] by (late+1) rate at most, because late+1 labels after it has left the
// interval each of them moves it back; and missed / n - a = (a(1) - a(n+1)) / (rate n).
//
// # Numbers
//
// The interval of a regression is a value plus two numbers, low and high, such that a share
// b = (1 - level) / 2 of the true numbers is below it and as many are above. Each edge follows
// the labels by itself: with half = (high - low) / 2 of the model, and above 1 where the
// number was above its interval, else 0,
//
//	high(t+1) = high(t) + rate half (above(t) - b),   high(1) = high
//
// and low likewise, the other way. That is quantile tracking (A. Angelopoulos, E. Candes,
// R. Tibshirani: Conformal PID control for time series prediction, NeurIPS 2023). It moves the
// edge itself, where the method above moves the share at which it acts: a share below 0
// would be an interval without an end, which three misses in a row are enough for at 0.95
// and a rate of 0.01. After n numbers, m of them above, high is the model's plus
// rate half (m - n b): again the order says nothing more.
//
// Where the numbers less their values are in least..most, and late is as above, high stays in
// least - (late+1) b s .. most + (late+1) (1-b) s, s = rate half, or in between that and
// where it began: below least each number is above it, so that it rises, and above most
// none is. So
//
//	|m / n - b| <= max(most - high + (late+1) (1-b) s, high - least + (late+1) b s) / (s n)
//
// whatever the order of these numbers. For low the same holds.
//
// # Files
//
//   - walk.go: moves the threshold of sets from label to label
//   - edges.go: moves the edges of intervals from label to label
package adaptive
