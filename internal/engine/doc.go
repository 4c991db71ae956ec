// Package engine is what all engines share, on CPUs and GPUs: where things are in a state,
// how features follow from a state, and the checks of a call.
//
// # Files
//
//   - layout.go: defines the words of a state; computes features
//   - layout_mixed.go: defines the words of a state of kind mixed
//   - check.go: checks calls and inputs of engines
//   - judging.go: defines engines that judge sequences with detectors
package engine
