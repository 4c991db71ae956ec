// Package choose selects settings of a training that the user did not specify: the policy with its length and hop, and
// the front end. Each candidate is trained on a part of the training data, and its error on left-out groups decides.
//
// # Search
//
// [Measure] reads the time scales of the data. [Search] compares policies first, then front ends of the chosen policy, by
// the bank tiny: all on some sequences, then the better third on twice as many. The base (a whole stream, if streams are
// alike; otherwise the given policy; then no front end) remains unless a candidate is better by more than one standard
// error, also over the groups, or a front end is not worse at half the cost. Then a shorter hop is tried, if there are
// few sequences.
//
// The budget counts multiply-adds, not time, so the result does not depend on the machine or its load. A budget that
// is too small for all candidates drops the last candidates of the list.
//
// # Files
//
//   - measure.go: measures the time scales of the training data
//   - settings.go: lists candidates
//   - search.go: compares candidates
package choose
