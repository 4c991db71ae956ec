// Package durable writes files that survive a power failure: a file appears under its
// name only after its content is on the disk, and the name is on the disk before the
// caller goes on. It is the only home of that order.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
)

// Step is a step towards the disk.
type Step struct {
	Kind string // sync (a file's content), rename, folder (its names)
	Path string // of the file, after a rename its new one, or the folder
	Size int64  // of the file
}

var observer atomic.Pointer[func(Step)]

// Observe calls f with every step of the process, after it was done, until the
// function that it returns is called. Tests use it to find steps that are missing or
// in a wrong order, which nothing else shows without a power failure.
func Observe(f func(Step)) (end func()) {
	observer.Store(&f)
	return func() { observer.Store(nil) }
}

func done(s Step) {
	if f := observer.Load(); f != nil {
		(*f)(s)
	}
}

// Sync returns after what was written to a file is on the disk.
func Sync(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if observer.Load() != nil {
		size := int64(-1)
		if st, err := f.Stat(); err == nil {
			size = st.Size()
		}
		done(Step{"sync", f.Name(), size})
	}
	return nil
}

// SyncFolder returns after the names in a folder are on the disk.
func SyncFolder(dir string) error {
	if err := dirlock.Sync(dir); err != nil {
		return err
	}
	done(Step{Kind: "folder", Path: dir})
	return nil
}

// Commit closes a complete file and gives it its name, which is in the same folder.
// After an error the file is removed.
func Commit(f *os.File, path string, mode fs.FileMode) error {
	err := errors.Join(f.Chmod(mode), Sync(f), f.Close())
	if err == nil {
		if err = os.Rename(f.Name(), path); err == nil {
			done(Step{Kind: "rename", Path: path})
			return SyncFolder(filepath.Dir(path))
		}
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// Write writes a file that appears whole or not at all.
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
