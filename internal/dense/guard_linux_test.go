//go:build linux

package dense

import (
	"syscall"
	"testing"
	"unsafe"
)

// guarded returns n values, in whole pages between pages without access: an access one
// byte too far crashes.
func guarded[T any](t *testing.T, n int) []T {
	t.Helper()
	var zero T
	page := syscall.Getpagesize()
	size := ceil(n*int(unsafe.Sizeof(zero)), page) * page
	m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{m[:page], m[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&m[page])), size/int(unsafe.Sizeof(zero)))
}
