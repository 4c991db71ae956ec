package dirlock

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks a file, or reports that another process holds the lock. The lock covers a byte far
// beyond the content: other processes cannot read locked bytes, and DescribeHolder reads the
// process number.
func lock(f *os.File) (free bool, err error) {
	position := &windows.Overlapped{OffsetHigh: math.MaxInt32}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, position)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// Sync does nothing: the system has no call for syncing, and writes directory names by
// itself.
func Sync(string) error { return nil }
