// Package engines turns --engine into engines: the processor's, the GPU's, and
// what takes over where a GPU is lost.
//
// # Files
//
//   - engines.go: lists and checks the values of stage.engine; creates engines
//   - gpu.go: opens engines on GPUs and replaces failed engines
package engines
