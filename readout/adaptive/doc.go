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
package adaptive
