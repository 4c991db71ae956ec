// Package cuda opens the NVIDIA driver at run time and calls it.
//
// It owns the way to the driver (dlopen of libcuda.so.1, our own prototypes),
// the life of what is allocated there, and the sorting of the driver's errors.
// It knows no kernel and no network. A program that contains it builds without
// anything of NVIDIA's and starts on machines without a driver; only Open says
// that one is missing. Outside linux and cgo, Open returns Unsupported.
//
// A context is current per OS thread, and goroutines change threads. So every
// C function makes its context current before it calls the driver, and no Go
// code here locks a thread. A Context belongs to one goroutine at a time.
//
// Operations on a stream are collected in a Batch and handed over in one
// crossing from Go to C, which allocates nothing.
//
// # Files
//
//   - driver.go: loads the CUDA driver at run time and calls its functions
//   - driver_other.go: returns an error on systems without the driver
//   - batch.go: submits lists of copies, launches and events to a CUDA stream
//   - types.go: defines devices, device pointers, CUDA streams, events and modules
//   - errors.go: classifies the errors of the driver
package cuda
