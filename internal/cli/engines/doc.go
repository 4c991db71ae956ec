// Package engines turns --engine into engines: the processor's, the GPU's, and
// what takes over where a GPU is lost.
package engines
