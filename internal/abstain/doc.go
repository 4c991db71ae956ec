// Package abstain fits the threshold of readout.AbstainRule, so that few answers are wrong.
//
// A prediction answers where the probability of its class is above a threshold, and
// abstains elsewhere. The error of a threshold is the share of wrong classes among what
// it answers. Learn takes the lowest threshold whose error is shown to be at most
// MaxError: were it larger, what was counted would be seen with a probability of at most
// 1 - Confidence.
//
// The thresholds that are tested are 1 - d with
//
//	d = MaxError 2^(j/8),   j = 0, 1, 2, ...
//
// and at the end 0, which answers all. They are known before any sequence is seen. At one
// that answers n sequences, k of them wrong, the hypothesis that its error is larger than
// MaxError is rejected where
//
//	P(X <= k) <= 1 - Confidence,   X binomial with n trials of probability MaxError
//
// which is where the upper bound of Clopper and Pearson is at most MaxError. The tests
// go down from the highest threshold, and end at the first hypothesis that is not
// rejected. So no level is divided among them, and the chance that any of the rejected
// hypotheses is true is at most 1 - Confidence: fixed sequence testing, as in A. N.
// Angelopoulos, S. Bates, E. J. Candes, M. I. Jordan, L. Lei: Learn then test: calibrating
// predictive algorithms to achieve risk control, arXiv:2110.01052 (2021). A union bound
// over the thresholds, as in Y. Geifman, R. El-Yaniv: Selective classification for deep
// neural networks, NeurIPS (2017), would need about twice as many sequences where none is
// wrong: 327 instead of 149, for an error of 0.02 and 37 thresholds. The control of an expected error, as in conformal risk control, says
// less: nothing about the model that one has.
//
// A threshold that answers fewer than Enough sequences is passed over: even without an
// error they show nothing. That keeps the level as long as the error does not fall when
// the threshold does, for then what is passed over is no worse than what follows.
//
// All of this is about independent sequences like those that were counted, and takes the
// probabilities as given. The errors of leave-one-out, which a readout counts, are nearly
// so: each sequence is scored by a readout that has not seen it, but these readouts share
// sequences with each other, and the temperature is of all.
//
// # Files
//
//   - learn.go: fits and tests thresholds; counts answers
package abstain
