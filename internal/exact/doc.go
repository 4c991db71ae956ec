// Package exact sums samples as integers, so that samples can be removed, singly or as sums,
// without a trace, bit for bit. The sums are for programs that do not keep the samples; a
// fit.Learner is much faster. Package fit fits readouts from the sums.
//
// # Files
//
//   - sums.go: adds and removes samples
//   - moments.go: rounds sums to moments about the mean
//   - encode.go: encodes sums
//   - fixed.go: adds integers of 192 bits
package exact
