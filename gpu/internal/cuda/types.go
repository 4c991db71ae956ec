package cuda

// Library is the file that Open opens. Tests put a driver of their own here.
var Library = "libcuda.so.1"

// MinVersion is the driver interface the kernels need: CUDA 11.0, which came
// with driver 450 and is the first to know sm_80.
const MinVersion = 11000

// Device is what is known of a GPU without using it.
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

// A Stream runs what is submitted to it in order.
type Stream uint64

// An Event is a place in a stream that others can wait for.
type Event uint64

// A Module is a loaded PTX file, a Function one of its kernels.
type (
	Module   uint64
	Function uint64
)

// Launch says how a kernel is started.
type Launch struct {
	Function            Function
	GridX, GridY, GridZ uint32 // blocks
	Block               uint32 // threads
	Shared              uint32 // bytes of dynamic shared memory
}
