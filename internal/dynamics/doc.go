// Package dynamics says how long a network remembers, and whether its states are as
// they should be.
//
// # How long it remembers
//
// Near a state of zero, where every activation has slope 1, a step is linear: of member r
//
//	h' = J h + input,   J = keep I + gain M
//
// Each eigenvalue of J belongs to a mode of the member. Its modulus is what is left of a
// mode after a step: with a modulus m below 1, a mode falls to 1/e within -1/ln(m)
// samples. The largest modulus of all is the effective spectral radius (C. Gallicchio,
// "Euler State Networks: Non-dissipative Reservoir Computing", arXiv 2203.09382,
// Corollary 1). A mode with a modulus of 1 or more does not fall near zero: there the
// activation's limit bounds it. Units that are driven far from zero have smaller slopes;
// a unit with taps then forgets more slowly than its mode says.
//
// Features are more than the state: means, shares and maxima are of all samples of the
// sequence, whatever the state has forgotten.
//
// # What states are like
//
// Look reads two figures from the features of a state, which say more in time and beside
// other streams than by themselves:
//
//	saturated   the share of units whose activation has come to 99 % of its limit in the
//	            sequence, on the upper side
//	size        the root of the mean square of the units' states
//
// A size that grows without end is a network that does not forget its input: of an
// endless sequence, or with a recipe of one's own. If most units are saturated, the
// input is far larger than in training.
//
// # Files
//
//   - look.go: computes figures of single states
//   - modes.go: computes how long a network remembers
package dynamics
