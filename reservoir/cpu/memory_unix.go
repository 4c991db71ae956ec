//go:build linux || darwin

package cpu

import (
	"syscall"
	"unsafe"
)

// ownMemory is the size in bytes from which states get memory of their own.
const ownMemory = 16 << 20

// stateMemory is n words of zeros, and how to give them back. Many of them are not
// the garbage collector's: it lets the memory of a program grow to twice what is in
// use, and keeps what a pool that has grown has left for a while. For states, which
// are nearly all memory of a large stage, both would cost gigabytes.
func stateMemory(n int) ([]uint32, func(), error) {
	if 4*n < ownMemory {
		return make([]uint32, n), nil, nil
	}
	b, err := syscall.Mmap(-1, 0, 4*n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	free := func() { _ = syscall.Munmap(b) } // of what Mmap gave it cannot fail
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), n), free, nil
}
