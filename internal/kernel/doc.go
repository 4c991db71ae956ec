// Package kernel is the vector code under reservoir's CPU engine: the fused step of a
// tile of streams, and the moves between a stream's row of words and a tile. The
// package knows no slots, runs or threads.
//
// A tile holds one member's values for several streams in parallel: value row i (an
// input or a unit) is one vector, or two, with one stream per lane. A step computes,
// for every unit and lane,
//
//	z  = bias; z = fma(w[k], value[k], z) for the inputs, then the units, ascending
//	h' = fma(gain, Tanh(z), keep*h)
//
// in the canonical arithmetic of internal/canon, so every instruction set gives the
// same bits. Several units' sums are in registers at once (a row tile); their tanh
// runs during the sums of the next row tile.
//
// MixedKernels are of kind mixed (docs/mixed-bank.md): one stream, 8 members of its
// bank in the lanes, in place in the stored state. They use none of the above.
// NoveltyKernels are for a detector (readout/novelty).
//
// The programs in _asm (a separate module) generate the assembly: with avo for amd64,
// with our own text for arm64 (_asm/neon), which avo does not support. The assembly
// trusts its caller: Steps and the moves check nothing.
//
// # Files
//
//   - kernel.go: defines the kernels of an instruction set
//   - mixed.go: defines the kernels of kind mixed
//   - levels_amd64.go, levels_arm64.go, levels_other.go: detect AVX-512, AVX2 and NEON
//   - mixed_amd64.go, mixed_arm64.go, mixed_other.go: select the kernels of kind mixed
//   - fastest.go: selects the best set; measures the peak of multiply-adds
//   - pack.go: arranges weights for the step kernels
//   - offsets_amd64.go: checks offsets that the assembly uses
//   - _asm/main.go: generates the assembly files for AVX-512 and AVX2
//   - _asm/steps.go: generates the AVX-512 and AVX2 step kernels
//   - _asm/tanh.go, _asm/lookup.go: generate the tanh
//   - _asm/mixed.go, _asm/pairs.go: generate the step kernels of kind mixed
//   - _asm/readout.go, _asm/novelty.go: generate the kernels of readouts and detectors
//   - _asm/neon/steps.go, _asm/neon/mixed.go: generate the NEON step kernels
package kernel

// avo prints its command line into the files; -C keeps the command line short
// and the same everywhere.
//go:generate go run -C _asm . -isa avx512 -out ../avx512_amd64.s -stubs ../avx512_amd64.go -pkg kernel
//go:generate go run -C _asm . -isa avx2 -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg kernel
//go:generate go run -C _asm . -offsets ../offsets.go
//go:generate go run -C _asm ./neon -out ../neon_arm64.s -stubs ../neon_arm64.go
