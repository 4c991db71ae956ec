// Package dynamics computes how long a network remembers, and checks whether its states
// are normal.
//
// # Memory
//
// Near a state of zero, where every activation has slope 1, a step is linear: of member r
//
//	h' = J h + input,   J = keep I + gain M
//
// Each eigenvalue of J belongs to a mode of the member. Its modulus is the remaining
// share of a mode after a step: with a modulus m below 1, a mode falls to 1/e within
// -1/ln(m) samples. The largest modulus is the effective spectral radius (C. Gallicchio,
// "Euler State Networks: Non-dissipative Reservoir Computing", arXiv 2203.09382,
// Corollary 1). A mode with a modulus of 1 or more does not fall near zero: there the
// activation's limit bounds the mode. Units far from zero have smaller slopes; a unit
// with taps then forgets more slowly than its mode.
//
// Features are more than the state: means, shares and maxima cover all samples of the
// sequence, including forgotten samples.
//
// # Condition of states
//
// Look computes two figures from the features of a state, which are most useful over time
// and compared with other streams:
//
//	saturated   the share of units whose activation has reached 99 % of its limit in the
//	            sequence, on the upper side
//	size        the root of the mean square of the units' states
//
// A size that grows without limit belongs to a network that does not forget its input: of
// an endless sequence, or with a custom recipe. If most units are saturated, the input is
// far larger than in training.
//
// # Files
//
//   - look.go: computes figures of single states
//   - modes.go: computes how long a network remembers
package dynamics
