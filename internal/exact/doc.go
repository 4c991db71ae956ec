// Package exact sums samples as integers, so that samples can be removed again, one by one or
// as the sums of others, and nothing of them stays, bit for bit. The sums are for programs that
// do not keep the samples; a fit.Learner is much faster. Package fit fits readouts from them.
//
// # Files
//
//   - sums.go: adds and removes samples
//   - moments.go: rounds sums to moments about the mean
//   - encode.go: encodes sums
//   - fixed.go: adds integers of 192 bits
package exact
