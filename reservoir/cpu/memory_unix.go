//go:build linux || darwin

package cpu

import (
	"syscall"
	"unsafe"
)

// ownMemory is the size in bytes from which states get their own memory.
const ownMemory = 16 << 20

// stateMemory returns n words of zeros, and a function that frees them. Many words
// do not come from the garbage collector: it lets the memory of a program grow to
// twice the memory in use, and keeps the memory of a replaced pool for a while. For
// states, which are nearly all memory of a large stage, both would cost gigabytes.
func stateMemory(n int) ([]uint32, func(), error) {
	if 4*n < ownMemory {
		return make([]uint32, n), nil, nil
	}
	b, err := syscall.Mmap(-1, 0, 4*n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	free := func() { _ = syscall.Munmap(b) } // cannot fail for memory from Mmap
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), n), free, nil
}
