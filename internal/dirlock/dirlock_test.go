package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestTake checks for a single holder of a lock with a readable number, and a free lock after
// the release.
func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if h := DescribeHolder(path); h != "another process" {
		t.Errorf("nobody has had the lock: held by %q", h)
	}
	release, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if h, want := DescribeHolder(path), fmt.Sprintf("process %d", os.Getpid()); h != want {
		t.Errorf("held by %q, want %q", h, want)
	}
	if _, err := Take(path); !errors.Is(err, ErrHeld) || !strings.HasSuffix(err.Error(), Remedy(path)) {
		t.Errorf("taken twice: %v", err)
	}
	release()
	if release, err = Take(path); err != nil {
		t.Fatalf("taken again after its release: %v", err)
	}
	release()
	if _, err := Take(filepath.Join(path, "none", "lock")); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("a folder that is not there: %v, want what the system says", err)
	}
}

// TestTakeFile locks a data file, and a file after its name has passed to another file.
func TestTakeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	release, err := TakeFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeFile(second); !errors.Is(err, ErrHeld) {
		t.Errorf("taken twice: %v", err)
	}
	first.Close()
	release()
	if release, err = TakeFile(second); err != nil {
		t.Fatalf("taken again after its release: %v", err)
	}
	second.Close()
	release()
	if runtime.GOOS == "windows" {
		return // the system cannot rename open files
	}
	third := open()
	if err := os.Rename(path, path+".gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeFile(third); !errors.Is(err, ErrHeld) {
		t.Errorf("a file whose name is gone: %v", err)
	}
	if err := Sync(filepath.Dir(path)); err != nil {
		t.Error(err)
	}
	if err := Sync(path + ".none"); err == nil {
		t.Error("the names of a directory that is not there are safe")
	}
}
