// Package gpu is the batch engine on NVIDIA GPUs: reservoir.Engine with the
// same bits as every other engine, advanced by the kernels of package kernels
// through the driver of internal/cuda.
//
// The package controls the host side of a device: memory, transfers of samples
// and scores, and failures. It does not depend on stages.
//
// # The way of a call
//
// Advance checks the call (engine.CheckCall), so that a refused call changes
// nothing, and cuts the call into pieces that fit a buffer (ring.go). Each
// piece goes through one of a ring of buffers:
//
//	host     pack samples and runs into pinned memory
//	stream   copy up | wait for the previous piece | kernels | copy scores down
//
// One call of the driver submits a piece. While the kernels of a piece run, the
// next piece is packed and copied up; kernels of all pieces run in order,
// because pieces may use the same slots.
//
// # States
//
// States are in device memory in the order of engine.Layout, slot after slot.
// New plans the pool from the memory that is free then: Advance allocates
// nothing later. ReadState and WriteState go through pinned windows that hold
// many states (states.go), because a copy of one state costs as much as a copy
// of thousands.
//
// # Failure
//
// If a device fails during its work, the contents of its states are unknown.
// The engine is lost then: every call returns an error that is
// reservoir.ErrLost, Close still frees memory as far as possible, and the
// states must come from a snapshot. New first computes a few sequences on each
// engine and compares them bit by bit with the generic engine.
//
// # Files
//
//   - engine.go: creates and closes the engine on a GPU
//   - device.go: lists the GPUs that can run the kernels; remembers lost GPUs
//   - plan.go: divides the memory of a GPU among states and buffers
//   - ring.go: advances states (Advance): cuts a call into pieces, submits them, collects results
//   - states.go: reads, writes and resets states through pinned memory
//   - products.go: names the arithmetic: canonical products or tensor cores (TF32)
//   - selftest.go: compares a GPU with the generic engine bit by bit
//   - selftest_near.go: compares the states of tensor cores within error bounds
//   - errors.go: defines the errors: no GPU, too little memory, lost GPU
package gpu
