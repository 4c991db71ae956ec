// Package trial judges the shadows of a job: how often they agree with the readout that
// answers, and, on sequences that have labels, which of the two is right more often.
//
// Let n labelled sequences be judged by both readouts, let b be those of which the
// answering one alone is right, and c those of which the shadow alone is. (Those of
// which both or none are right say nothing about which is better.)
//
//   - McNemar's exact test: if both are right equally often, c is binomial with b+c
//     trials of probability 1/2. The two-sided p is min(1, 2 P(X <= min(b, c))).
//   - Better, with error probability e: P(X >= c) <= e for the same X. So a shadow that
//     is right as often as the other, or less, passes with probability e at most.
//   - NotWorse, with error probability e and margin d: of all sequences, let B be the
//     probability that the answering one alone is right, and C that the shadow alone is.
//     The shadow is worse by B - C. Clopper and Pearson's bounds, each with error e/2, are
//     u for B (upper) and l for C (lower); it passes where u - l < d. So a shadow that is
//     worse by d or more passes with probability e at most. (The two halves of e are
//     added, whatever b and c have to do with each other: the test is exact in
//     that it never promises too much, and asks for somewhat more sequences than it must.)
//
// Both hold if the labelled sequences are drawn independently of each other, and of what
// the readouts say of them. Sequences of one stream that follow each other are alike, and
// overlapping windows share samples: then there is less evidence than n says, and the
// error probability is larger. It is that of one decision: who asks k times, while
// labels come, divides e by k.
//
// # Files
//
//   - report.go: compares shadows with the active readout on labeled sequences
//   - exact.go: computes exact tests of two error rates
package trial
