package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// What is read of /proc is this process's, and a folder's size is that of its files.
func TestReadings(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"a": 1000, "b": 500} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := size(dir); err != nil || n != 1500 {
		t.Errorf("%v bytes (%v), want 1500", n, err)
	}
	before, err := resident(os.Getpid())
	if err != nil || before < 1e6 {
		t.Fatalf("%v bytes resident (%v)", before, err)
	}
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = byte(i)
	}
	after, err := resident(os.Getpid())
	if err != nil || after-before < 60e6 || after-before > 80e6 {
		t.Errorf("64 MB more are %v bytes more (%v)", after-before, err)
	}
	runtime.KeepAlive(block)
	if v, err := loadAverage(); err != nil || v < 0 {
		t.Errorf("load %v (%v)", v, err)
	}
}
