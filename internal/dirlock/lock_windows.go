package dirlock

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks a file, or finds that another process has. What is locked is one byte far
// behind all content: nobody else may read what is locked, and Holder reads the number of
// the process.
func lock(f *os.File) (free bool, err error) {
	at := &windows.Overlapped{OffsetHigh: math.MaxInt32}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// Sync does nothing: the system has no such call, and keeps the names of a directory
// by itself.
func Sync(string) error { return nil }
