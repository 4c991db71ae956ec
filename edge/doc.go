// Package edge writes a model as a program for a device without a Go program: a C99
// header, which allocates no memory and needs no library; or a page for a browser, with
// the same sources as WebAssembly.
//
// # Bits
//
// The header computes the results of package reservoir, bit for bit: states, scores,
// class, probability. A state is engine.Layout's array of words. The sources are in
// c/; each operation is rounded to float32 by itself or is a fused multiply-add, rounded
// once: the processor's instruction if available, otherwise float64 operations as in
// canon.FMA. tanh, the exponential and the square root are part of the header. Wherever a
// compiler may join a product and a sum (contraction), the product is exact, or is stored
// in a volatile variable. Options that would change bits in other ways (-ffast-math, x87)
// do not compile.
//
// Each header has a self-test: some hundred samples, and the Go engine's scores for them.
//
// # Not included
//
// Policies: the caller starts a sequence with reset. Flags, and a model's ranges and
// lengths, which only flags use. Early predictions, novelty and front ends are refused,
// see Options.Without; of a front end the operating regimes are part of a header, not of a
// page.
//
// # Files
//
//   - edge.go: checks that a model can be exported; computes the memory that a program needs
//   - header.go: writes a model as a C header
//   - arrays.go: writes numbers as C arrays; writes the self-test
//   - blob.go: encodes a model for the WebAssembly module
//   - html.go: writes a model as a page that classifies series in a browser
//   - c/mixed.h, c/paper.h: compute the steps in C
//   - c/regime.h: standardizes a sample within its operating regime in C
//   - c/wasm.c: exports the C code to the page (make wasm)
//   - page.html: is the template of the page
//   - testdata/device.c: runs an exported header in tests
package edge
