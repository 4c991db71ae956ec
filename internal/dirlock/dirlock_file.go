//go:build unix || windows

package dirlock

import "os"

func lockPath(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockOpen(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// unlock keeps the file: after a removal two processes could lock two files of the same name.
func unlock(f *os.File) { f.Close() }

func takeFile(f *os.File) (release func(), err error) { return func() {}, lockOpen(f) }

// lockOpen locks an open file until the file is closed.
func lockOpen(f *os.File) error {
	free, err := lock(f)
	switch {
	case err != nil:
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	case !free || !IsFileAt(f, f.Name()): // the file was renamed or removed meanwhile
		return newHeld(f.Name())
	}
	return nil
}

// Remedy returns the advice after a crash: none, the system has released the lock.
func Remedy(string) string { return "" }
