// Package gpu is the batch engine on NVIDIA GPUs: reservoir.Engine with the
// same bits as every other engine, advanced by the kernels of package kernels
// through the driver of internal/cuda.
//
// It owns the host side of a device: its memory, the way of samples and scores
// to it and back, and what happens when it fails. It knows no stage.
//
// # The way of a call
//
//	Advance checks the call (engine.CheckCall), so that what is refused has
//	changed nothing, and cuts it into pieces that fit a buffer (ring.go).
//	Each piece goes through one of a ring of buffers:
//
//	host     pack samples and runs into pinned memory
//	stream   copy up | wait for the piece before | kernels | copy scores down
//
//	A piece is handed over in one call of the driver. While the kernels of one
//	work, the next is packed and copied up; kernels of all pieces run in order,
//	because pieces may touch the same slots.
//
// # States
//
// They are in device memory as engine.Layout says, slot after slot. The
// pool is planned when the engine is made, from the memory that is free then:
// nothing that Advance needs is allocated later. ReadState and WriteState go
// through pinned windows that hold many states (states.go), because a copy of one
// state costs as much as one of thousands.
//
// # Failure
//
// When a device fails in the middle of its work, what its states hold
// is not known. The engine is lost then: every call returns an error that is
// reservoir.ErrLost, Close still frees what it can, and the states must come
// from a snapshot. Before an engine is given out it computes a few sequences
// and compares them with the generic engine's, bit for bit.
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
