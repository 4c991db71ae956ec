// Package engines turns --engine into engines: the processor's, the GPU's, and the
// fallback for a lost GPU.
//
// # Files
//
//   - engines.go: lists and checks the values of stage.engine; creates engines
//   - gpu.go: opens engines on GPUs and replaces failed engines
package engines
