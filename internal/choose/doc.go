// Package choose selects settings of a training that the user did not specify: the policy with its length and hop, and
// the front end. Each candidate is trained on a part of the training data, and its error on left-out groups decides.
//
// # Search
//
// [Measure] reads the time scales of the data. [Settings] lists the candidates: the default first, then lengths of
// sequences in steps of four, each with the front ends that suit the time scales. [Search] compares them by the bank tiny: all
// on some sequences, then the better third on twice as many. The default remains unless the best candidate is better by
// more than one standard error, or a front end is not worse at half the cost. Then a shorter hop is tried, if there are
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
