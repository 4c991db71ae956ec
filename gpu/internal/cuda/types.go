package cuda

// Library is the file that Open opens. Tests set the path of their own driver.
var Library = "libcuda.so.1"

// MinVersion is the driver interface required by the kernels: CUDA 11.0, which
// came with driver 450 and first supported sm_80.
const MinVersion = 11000

// Device describes a GPU as known before its use.
type Device struct {
	Ordinal         int // in the driver's order, which CUDA_VISIBLE_DEVICES may change
	Name            string
	PCI             string // bus address, as in 0000:1b:00.0: the same in NVML
	Memory          uint64 // bytes
	Major, Minor    int    // compute capability
	Multiprocessors int
	Shared          int // bytes of shared memory a block may ask for

	handle int32
}

// Pointer is an address in device memory.
type Pointer uint64

// A Stream runs submitted work in order.
type Stream uint64

// An Event is a place in a stream. Other streams can wait for an Event.
type Event uint64

// A Module is a loaded PTX file, a Function a kernel of a Module.
type (
	Module   uint64
	Function uint64
)

// Launch describes the start of a kernel.
type Launch struct {
	Function            Function
	GridX, GridY, GridZ uint32 // blocks
	Block               uint32 // threads
	Shared              uint32 // bytes of dynamic shared memory
}
