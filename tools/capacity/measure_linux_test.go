package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The readings of /proc are those of this process, and a folder's size is the size of its
// files.
func TestReadings(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"a": 1000, "b": 500} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := folderSize(dir); err != nil || n != 1500 {
		t.Errorf("%v bytes (%v), want 1500", n, err)
	}
	before, err := resident(os.Getpid())
	if err != nil || before < 1e6 {
		t.Fatalf("%v bytes resident (%v)", before, err)
	}
	// Memory outside Go's heap, for which the race detector needs as much memory again
	// and more.
	block, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for i := range block {
		block[i] = byte(i)
	}
	after, err := resident(os.Getpid())
	if err != nil || after-before < 60e6 || after-before > 80e6 {
		t.Errorf("64 MB more are %v bytes more (%v)", after-before, err)
	}
	if err := unix.Munmap(block); err != nil {
		t.Error(err)
	}
	if v, err := loadAverage(); err != nil || v < 0 {
		t.Errorf("load %v (%v)", v, err)
	}
}
