// Package engine is the common part of all engines, on CPUs and GPUs: the layout of a
// state, the computation of features from a state, and the checks of a call.
//
// # Files
//
//   - layout.go: defines the words of a state; computes features
//   - layout_mixed.go: defines the words of a state of kind mixed
//   - check.go: checks calls and inputs of engines
//   - judging.go: defines engines that judge sequences with detectors
package engine
