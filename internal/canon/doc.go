// Package canon is the arithmetic every engine must reproduce bit for bit:
// float32 fused multiply-add, rounded once, and our own tanh; and, in float64,
// the exponential of probabilities. It imports nothing of this project.
//
// # Files
//
//   - tanh.go: computes the canonical tanh, whose table package fit computes
//   - cubic.go: computes the activations of kind mixed
//   - mixed.go: defines the sizes of kind mixed
//   - exp.go: computes exp with equal bits on all platforms
//   - fma.go: rounds a fused multiply-add to float32
package canon
