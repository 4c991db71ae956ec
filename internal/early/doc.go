// Package early fits readout.EarlyRule, which decides when a prefix of a sequence suffices for
// its class.
//
// Learn gets the leave-one-out results of the prefixes of each training sequence, scored by a
// readout that has seen neither the sequence nor any of its prefixes. The c are the
// coefficients of a logistic regression with a small penalty. Most is the largest of a grid of
// 96 probabilities for which, as for all smaller probabilities, two conditions hold. The class
// of the first decided prefix, or of the whole sequence without a decided prefix, is right in
// as large a share of the sequences as the class of the whole sequence, less a loss that the
// user allows. And the mean of P(change) at the decisions is also at most this loss: few
// sequences without an error prove nothing, and the regression doubts its labels by the rule
// of succession, as in Platt's method for support vector machines.
//
// A stopping rule that is linear in confidence and time comes from U. Mori, A. Mendiburu, S.
// Dasgupta, J. A. Lozano: Early classification of time series by simultaneously optimizing the
// accuracy and earliness, IEEE Transactions on Neural Networks and Learning Systems 29 (2018)
// 4569-4578. Other rules also require several successive prefixes to agree: P. Schaefer, U.
// Leser: TEASER: early and accurate time series classification, Data Mining and Knowledge
// Discovery 34 (2020) 1336-1362.
//
// # Files
//
//   - learn.go: fits the rule of early decisions
package early
