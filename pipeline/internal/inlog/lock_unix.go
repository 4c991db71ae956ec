//go:build unix

package inlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes an exclusive lock, which the system releases when the process ends.
func Lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || err == nil && !IsAt(f, f.Name()) { // it was renamed or removed meanwhile
		return ErrInUse
	}
	return err
}

// Unlock releases it.
func Unlock(*os.File) {}

// SyncDir makes new names of a folder survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
