//go:build linux

package kernel

import (
	"syscall"
	"testing"
	"unsafe"
)

// guarded makes n values that end (or begin) next to forbidden memory: access to
// one byte too far is a crash.
func guarded[T any](t *testing.T, n int, atEnd bool) []T {
	t.Helper()
	var zero T
	page := syscall.Getpagesize()
	size := n * int(unsafe.Sizeof(zero))
	room := (size + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, room+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{m[:page], m[page+room:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	at := page
	if atEnd {
		at += room - size
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&m[at])), n)
}
