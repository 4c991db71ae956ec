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
	// Map, Unmap and Written report device memory: allocated, freed, written by
	// the host.
	Map(address uint64, data []byte)
	Unmap(address uint64)
	Written(address uint64, bytes int)
}

// Module is a loaded PTX text.
type Module interface {
	// Kernel describes a kernel; ok is false if the kernel does not exist.
	Kernel(name string) (k Kernel, ok bool)
	// Launch runs a kernel to its end.
	Launch(name string, grid, block [3]uint32, shared int, params []byte) error
}

// Kernel holds the values for the driver's check of launches.
type Kernel struct {
	Params       int // bytes
	Threads      int // of a block, at most
	StaticShared int // bytes of static shared memory
}

// hooked is the state of the hooks. A hook runs on the thread that calls the
// driver.
var hooked struct {
	sync.Mutex
	run  Runner
	last uint64
	by   map[uint64]Module
}

// Run changes the Runner of loaded modules and of memory allocated from now on.
func (f *Fake) Run(r Runner) { setRunner(r) }

func setRunner(r Runner) {
	hooked.Lock()
	defer hooked.Unlock()
	hooked.run = r
	if hooked.by == nil {
		hooked.by = map[uint64]Module{}
	}
}

func runner() Runner {
	hooked.Lock()
	defer hooked.Unlock()
	return hooked.run
}

func module(id C.uint64_t) Module {
	hooked.Lock()
	defer hooked.Unlock()
	return hooked.by[uint64(id)]
}

//export eusn_test_load
func eusn_test_load(text *C.char, id *C.uint64_t) C.int {
	run := runner()
	if run == nil {
		return C.INVALID_PTX
	}
	m, err := run.Load(C.GoString(text))
	if err != nil {
		fmt.Fprintf(os.Stderr, "fake driver: %v\n", err)
		return C.INVALID_PTX
	}
	hooked.Lock()
	defer hooked.Unlock()
	hooked.last++
	hooked.by[hooked.last] = m
	*id = C.uint64_t(hooked.last)
	return C.OK
}

//export eusn_test_unload
func eusn_test_unload(id C.uint64_t) {
	hooked.Lock()
	defer hooked.Unlock()
	delete(hooked.by, uint64(id))
}

//export eusn_test_function
func eusn_test_function(id C.uint64_t, name *C.char, params, threads, shared *C.int) C.int {
	k, ok := module(id).Kernel(C.GoString(name))
	if !ok {
		return C.NOT_FOUND
	}
	*params, *threads, *shared = C.int(k.Params), C.int(k.Threads), C.int(k.StaticShared)
	return C.OK
}

//export eusn_test_launch
func eusn_test_launch(id C.uint64_t, name *C.char, grid, block *C.uint32_t, shared C.uint32_t, params unsafe.Pointer, size C.uint32_t) C.int {
	three := func(p *C.uint32_t) [3]uint32 { return *(*[3]uint32)(unsafe.Pointer(p)) }
	err := launch(module(id), C.GoString(name), three(grid), three(block), int(shared), unsafe.Slice((*byte)(params), int(size)))
	if err != nil {
		fmt.Fprintf(os.Stderr, "fake driver: kernel %s: %v\n", C.GoString(name), err)
		return C.LAUNCH_FAILED
	}
	return C.OK
}

// launch turns a panic into an error: the driver is locked here, and a test
// that ended would wait for the lock.
func launch(m Module, name string, grid, block [3]uint32, shared int, params []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return m.Launch(name, grid, block, shared, params)
}

//export eusn_test_mapped
func eusn_test_mapped(address, bytes C.uint64_t) {
	if run := runner(); run != nil {
		p := *(*unsafe.Pointer)(unsafe.Pointer(&address)) // the device's addresses are this process's
		run.Map(uint64(address), unsafe.Slice((*byte)(p), int(bytes)))
	}
}

//export eusn_test_unmapped
func eusn_test_unmapped(address C.uint64_t) {
	if run := runner(); run != nil {
		run.Unmap(uint64(address))
	}
}

//export eusn_test_written
func eusn_test_written(address, bytes C.uint64_t) {
	if run := runner(); run != nil {
		run.Written(uint64(address), int(bytes))
	}
}
