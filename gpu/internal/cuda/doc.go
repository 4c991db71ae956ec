// Package cuda opens the NVIDIA driver at run time and calls it.
//
// The package controls the way to the driver (dlopen of libcuda.so.1, our own
// prototypes), the life of allocations, and the sorting of the driver's errors.
// The package depends on no kernel and no network. A program with this package
// builds without any file of NVIDIA and starts on machines without a driver; only
// Open reports a missing driver. Outside linux and cgo, Open returns Unsupported.
//
// A context is current per OS thread, and goroutines change threads. So every C
// function makes its context current before a call of the driver, and no Go code
// here locks a thread. A Context belongs to one goroutine at a time.
//
// A Batch collects operations on a stream. One crossing from Go to C, without
// allocation, submits the Batch.
//
// # Files
//
//   - driver.go: loads the CUDA driver at run time and calls its functions
//   - driver_other.go: returns an error on systems without the driver
//   - batch.go: submits lists of copies, launches and events to a CUDA stream
//   - types.go: defines devices, device pointers, CUDA streams, events and modules
//   - errors.go: classifies the errors of the driver
package cuda
