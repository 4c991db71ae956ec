// Package abstain fits the threshold of readout.AbstainRule, so that few answers are wrong.
//
// A prediction answers if the probability of its class is above a threshold, and abstains
// otherwise. The error of a threshold is the share of wrong classes among its answers. Learn
// takes the lowest threshold whose error is shown to be at most MaxError: with a larger error,
// the observed counts would occur with a probability of at most 1 - Confidence.
//
// The tested thresholds are 1 - d with
//
//	d = MaxError 2^(j/8),   j = 0, 1, 2, ...
//
// and finally 0, which answers all. The thresholds are fixed before any sequence is seen. For
// a threshold that answers n sequences, k of them wrong, the hypothesis that its error is
// larger than MaxError is rejected if
//
//	P(X <= k) <= 1 - Confidence,   X binomial with n trials of probability MaxError
//
// or equivalently if the upper bound of Clopper and Pearson is at most MaxError. The tests go
// down from the highest threshold, and end at the first hypothesis that is not rejected. So no
// level is divided among the tests, and the chance that any rejected hypothesis is true is at
// most 1 - Confidence: fixed sequence testing, as in A. N. Angelopoulos, S. Bates, E. J.
// Candes, M. I. Jordan, L. Lei: Learn then test: calibrating predictive algorithms to achieve
// risk control, arXiv:2110.01052 (2021). A union bound over the thresholds, as in Y. Geifman,
// R. El-Yaniv: Selective classification for deep neural networks, NeurIPS (2017), would need
// about twice as many sequences without an error: 327 instead of 149, for an error of 0.02 and
// 37 thresholds. Controlling an expected error, as in conformal risk control, guarantees less:
// nothing about a particular model.
//
// A threshold that answers fewer than Enough sequences is skipped: even without an error the
// sequences show nothing. Skipping keeps the level if the error does not fall when the
// threshold falls, because a skipped threshold is then no worse than the next.
//
// The method assumes independent sequences like the counted sequences, and given probabilities.
// The leave-one-out errors counted by a readout nearly meet these assumptions: a readout that
// scores a sequence has not seen the sequence, but the readouts share sequences, and
// the temperature uses all sequences.
//
// # Files
//
//   - learn.go: fits and tests thresholds; counts answers
package abstain
