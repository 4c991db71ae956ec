//go:build unix

package dirlock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func take(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hold(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// let leaves the file there: removing it would let two processes lock two files of
// the same name.
func let(f *os.File) { f.Close() }

func takeFile(f *os.File) (release func(), err error) { return func() {}, hold(f) }

// hold locks an open file until it is closed.
func hold(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), err == nil && !IsAt(f, f.Name()): // it was renamed or removed meanwhile
		return held(f.Name())
	case err != nil:
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

// Remedy is what to do after a crash: nothing, on Unix.
func Remedy(string) string { return "" }

// Sync makes the names in a directory survive a power failure.
func Sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
