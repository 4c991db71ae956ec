// Package kernels holds the GPU side: the CUDA C++ sources and the PTX compiled
// from them. The package also has the parts of the host side that need no
// driver: the layout of every buffer, the packing of a network and its readouts
// into device images, the cutting of a call into rounds, and the launches of
// each round. The package knows no driver and no device memory, so a driver, a
// fake driver and the PTX interpreter run the same launches.
//
// # Bits
//
// The kernels compute the canonical arithmetic of package reservoir: the chain
// of each unit in the documented order by fma.rn.f32, nothing contracted,
// denormals kept, canon.Tanh by canon's own table (which is in the image),
// accumulators and features as engine.Layout documents them. So a state
// advanced here equals the generic engine's state, bit for bit.
//
// # Buffers
//
// All are 256-byte aligned device memory (as from the driver's allocator). Rows
// (states) are named as in the CUDA sources:
//
//	Rows    slots x Program.StateWords() words. A state is engine.Layout's, so
//	        ReadState and WriteState are plain copies. A new pool must hold reset
//	        states: zeros, but Max words -1 (Layout.Reset).
//	Image   Program.Image(), uploaded once: tanh table, input transform, members.
//	Readouts Program.Readouts(readouts), uploaded at SetReadouts. Unused without readouts.
//	Inputs  samples x Channels float32: the call's raw samples, row-major.
//	Runs    Batch.Runs, uploaded each call (24 bytes each).
//	Emits   Batch.Emits, uploaded each call (4 bytes each).
//	Scores  Batch.Scores times ScoreWidth float32: the call's scores, in the
//	        order of reservoir.Engine.
//	Work    Program.WorkBytes(runs of the largest round), 0 for resident networks.
//
// # A call
//
//	batch.Cut(runs, steps)                      // host: rounds of distinct slots, longest runs first
//	... upload inputs, batch.Runs, batch.Emits
//	for i := range batch.Rounds {
//		launches = program.Launches(launches[:0], buffers, batch, i)
//		for each: cuLaunchKernel(functions[l.Kernel], l.Grid, l.Block, l.Shared, &l.Args)
//	}
//	... download scores
//
// All launches of a call, and of calls on the same slots, go to one stream or
// are ordered by events: a launch relies on the previous launch. Runs of one
// slot in a call fall into successive rounds. Between calls, device memory
// holds only the states.
//
// The host checks samples and arguments (engine.CheckCall) before any launch;
// the kernels check nothing. The host also keeps each slot's count of samples
// for CheckCall and Cut.
//
// # Kernels
//
// Names lists them in the order of Launch.Kernel. All take one Args by value.
//
//	eusn_resident_<S>           one block advances S streams of one member through
//	eusn_resident_features_<S>  all their samples; weights and states stay in
//	                            shared memory. Without, with accumulators.
//	                            grid (streams/S, members)
//	eusn_streamed_<S>           one sample of S streams by a tile of units, as a
//	                            matrix product; for networks whose weights do not fit.
//	                            grid (streams/S, units/tile, members), one launch a sample
//	eusn_tensor3, eusn_tensor2  the same on tensor cores: approximate, see Products
//	eusn_finish                 counts, previous sample, resets of empty runs; streamed
//	                            states that ended in Work. grid (runs)
//	eusn_scores                 features and scores of emitting runs. grid (emits/64, tiles)
//	eusn_mixed_taps_<N>         networks of kind mixed: a warp takes 8 tap members of a
//	eusn_mixed_taps             stream through all their samples; of N taps with the
//	                            activation of the recipes, or of any number with any.
//	                            grid (warps that share the runs, blocks of 8 members)
//	eusn_mixed_recurrent        the same for recurrent members, with the cubic or with
//	eusn_mixed_recurrent_any    any activation
//	eusn_mixed_finish           counts, previous sample, ring, resets of empty runs. grid (runs)
//	eusn_mixed_scores           features and scores. grid (emits/64, tiles)
//
// Only the resident kernels and the kernels of blocks of 8 members take dynamic
// shared memory (Launch.Shared; Dynamic names them), up to
// Device.SharedPerBlock: raise CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
// to that limit once for each of these kernels, and for no other kernel. The
// other kernels have static shared memory, which counts against the same limit:
// the driver would refuse to raise theirs so far.
//
// # Files
//
//   - program.go: packs a network into the image that the kernels read
//   - launch.go: lists the kernel launches of a round
//   - batch.go: cuts a call into rounds in which each slot occurs once
//   - readouts.go: packs readouts for the score kernel
//   - mixed.go: packs networks of kind mixed (docs/mixed-bank.md)
//   - tensor.go: prepares networks for tensor cores (TF32)
//   - variants.go: names the kernels and their tile sizes
//   - abi.go: defines the structs shared with the kernels; abi.h has the same structs
//   - ptx.go: embeds the compiled kernels
//   - generate.go: compiles the kernels (make ptx)
//   - eusn.cu: includes all kernels
//   - resident.h, streamed.h: step networks with weights in shared memory, and larger networks
//   - mixed.h: steps networks of kind mixed
//   - tensor.h: steps networks on tensor cores
//   - scores.h, finish.h: compute features and scores; finish the samples of a round
//   - shapes_test.go: lists the shapes of the tests
//   - mutants_test.go: plants bugs that the tests must find (make ptx-mutants)
package kernels
