//go:build unix

package backfill

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes an exclusive lock, which the system releases when the process ends.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || err == nil && !isAt(f, f.Name()) { // it was renamed or removed meanwhile
		return ErrInUse
	}
	return err
}

func unlock(*os.File) {}

// syncDir makes new names of a folder survive a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
