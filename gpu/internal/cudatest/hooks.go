//go:build linux && cgo

package cudatest

/*
#include "driver/fake.h"
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// Runner executes kernels in the place of a GPU.
type Runner interface {
	// Load parses a PTX text.
	Load(ptx string) (Module, error)
}

// Module is a loaded PTX text.
type Module interface {
	// Kernel gives the size of a kernel's parameters and the most threads of a
	// block; ok is false for one that does not exist.
	Kernel(name string) (params, threads int, ok bool)
	// Launch runs a kernel to its end. memory is the device's, at its addresses.
	Launch(name string, grid, block [3]int, shared int, params []byte, memory []Region) error
}

// Region is an allocation of device memory.
type Region struct {
	Address uint64
	Bytes   []byte
}

// What the driver's hooks see. A hook is called by whichever thread makes the
// driver work.
var modules struct {
	sync.Mutex
	run  Runner
	last uint64
	by   map[uint64]Module
}

func setRunner(r Runner) {
	modules.Lock()
	defer modules.Unlock()
	modules.run = r
	modules.by = map[uint64]Module{}
}

func module(id C.uint64_t) Module {
	modules.Lock()
	defer modules.Unlock()
	return modules.by[uint64(id)]
}

//export eusn_test_load
func eusn_test_load(text *C.char, id *C.uint64_t) C.int {
	modules.Lock()
	defer modules.Unlock()
	if modules.run == nil {
		return C.INVALID_PTX
	}
	m, err := modules.run.Load(C.GoString(text))
	if err != nil {
		fmt.Fprintf(os.Stderr, "fake driver: %v\n", err)
		return C.INVALID_PTX
	}
	modules.last++
	modules.by[modules.last] = m
	*id = C.uint64_t(modules.last)
	return C.OK
}

//export eusn_test_unload
func eusn_test_unload(id C.uint64_t) {
	modules.Lock()
	defer modules.Unlock()
	delete(modules.by, uint64(id))
}

//export eusn_test_function
func eusn_test_function(id C.uint64_t, name *C.char, params, threads *C.int) C.int {
	p, n, ok := module(id).Kernel(C.GoString(name))
	if !ok {
		return C.NOT_FOUND
	}
	*params, *threads = C.int(p), C.int(n)
	return C.OK
}

//export eusn_test_launch
func eusn_test_launch(id C.uint64_t, name *C.char, grid, block *C.uint32_t, shared C.uint32_t, params unsafe.Pointer, size C.uint32_t, memory *C.fake_region, regions C.uint32_t) C.int {
	three := func(p *C.uint32_t) (v [3]int) {
		for i, x := range unsafe.Slice(p, 3) {
			v[i] = int(x)
		}
		return v
	}
	var list []Region
	for _, r := range unsafe.Slice(memory, regions) {
		// The addresses of the fake device are addresses of this process.
		p := *(*unsafe.Pointer)(unsafe.Pointer(&r.address))
		list = append(list, Region{uint64(r.address), unsafe.Slice((*byte)(p), int(r.bytes))})
	}
	err := module(id).Launch(C.GoString(name), three(grid), three(block), int(shared), unsafe.Slice((*byte)(params), int(size)), list)
	if err != nil {
		fmt.Fprintf(os.Stderr, "fake driver: kernel %s: %v\n", C.GoString(name), err)
		return C.LAUNCH_FAILED
	}
	return C.OK
}
