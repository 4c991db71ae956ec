// Package trial judges the shadows of a job: how often they agree with the answering readout, and,
// on labeled sequences, which of the two is right more often.
//
// Both readouts judge n labeled sequences. Let b be the number of sequences for which only the
// answering readout is right, and c the number for which only the shadow is right. (Sequences for
// which both or neither are right give no evidence.)
//
//   - McNemar's exact test: if both are right equally often, c is binomial with b+c
//     trials of probability 1/2. The two-sided p is min(1, 2 P(X <= min(b, c))).
//   - Better, with error probability e: P(X >= c) <= e for the same X. A shadow that is
//     right at most as often as the other readout passes with probability e at most.
//   - NotWorse, with error probability e and margin d: for all sequences, let B be the
//     probability that only the answering readout is right, and C that only the shadow is
//     right. The shadow is worse by B - C. Clopper and Pearson's bounds, each with error e/2,
//     are u for B (upper) and l for C (lower); the shadow passes if u - l < d. A shadow that
//     is worse by d or more passes with probability e at most. (The two halves of e are
//     added for any dependence of b and c: the test is exact in never exceeding e, and
//     requires somewhat more sequences than necessary.)
//
// Both hold if the labeled sequences are drawn independently of each other and of the readouts'
// answers. Successive sequences of one stream are similar, and overlapping windows share samples:
// the evidence is then less than n suggests, and the error probability is larger. The error
// probability is for one decision: for k decisions while labels arrive, divide e by k.
//
// # Files
//
//   - report.go: compares shadows with the active readout on labeled sequences
//   - exact.go: computes exact tests of two error rates
package trial
