// Package durable writes files that survive a power failure: a file gets its name only after
// its content is on the disk, and the name is on the disk before the call returns. All writers
// of the program use this package for this order.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
)

// Step is one step of writing to the disk.
type Step struct {
	Kind string // sync (a file's content), rename, folder (its names)
	Path string // of the file (after a rename the new path) or folder
	Size int64  // of the file
}

var observer atomic.Pointer[func(Step)]

// Observe calls f after every step of the process, until the caller calls end. Tests use
// Observe to detect missing or misordered steps, which otherwise only a power failure reveals.
func Observe(f func(Step)) (end func()) {
	observer.Store(&f)
	return func() { observer.Store(nil) }
}

func reportStep(s Step) {
	if f := observer.Load(); f != nil {
		(*f)(s)
	}
}

// Sync returns after the content of a file is on the disk.
func Sync(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if observer.Load() != nil {
		size := int64(-1)
		if st, err := f.Stat(); err == nil {
			size = st.Size()
		}
		reportStep(Step{"sync", f.Name(), size})
	}
	return nil
}

// SyncFolder returns after the names in a folder are on the disk.
func SyncFolder(dir string) error {
	if err := dirlock.Sync(dir); err != nil {
		return err
	}
	reportStep(Step{Kind: "folder", Path: dir})
	return nil
}

// Commit closes a complete file and renames it to a path in the same folder. After an error the
// file is removed.
func Commit(f *os.File, path string, mode fs.FileMode) error {
	err := errors.Join(f.Chmod(mode), Sync(f), f.Close())
	if err == nil {
		if err = os.Rename(f.Name(), path); err == nil {
			reportStep(Step{Kind: "rename", Path: path})
			return SyncFolder(filepath.Dir(path))
		}
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// Write writes a file atomically: the whole file appears, or nothing.
func Write(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return Commit(f, path, mode)
}
