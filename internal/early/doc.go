// Package early fits readout.EarlyRule, which says when a prefix of a sequence suffices for its
// class.
//
// Learn gets what leave-one-out says of the prefixes of each training sequence, scored
// by a readout that has seen neither the sequence nor any of its prefixes. The c are
// those of a logistic regression with a small penalty. Most is the largest of a grid of
// 96 probabilities for which, and for all smaller ones, two things hold. The class of the
// first prefix that is decided, or of the whole sequence where none is, is right in as
// large a share of the sequences as the class of the whole sequence, less a loss that the
// user allows. And the mean of P(change) at the decisions is at most that loss, too: where
// few sequences say that nothing goes wrong, that is no proof, and the regression doubts
// its labels by the rule of succession, as Platt does for support vector machines.
//
// A stopping rule that is linear in confidence and
// time is that of U. Mori, A. Mendiburu, S. Dasgupta, J. A. Lozano: Early classification
// of time series by simultaneously optimizing the accuracy and earliness, IEEE
// Transactions on Neural Networks and Learning Systems 29 (2018) 4569-4578. Others also
// want several prefixes in turn to agree: P. Schaefer, U. Leser: TEASER: early and
// accurate time series classification, Data Mining and Knowledge Discovery 34 (2020)
// 1336-1362.
//
// # Files
//
//   - learn.go: fits the rule of early decisions
package early
