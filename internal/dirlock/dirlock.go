package dirlock

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrHeld is the error for a lock held by another process.
var ErrHeld = errors.New("another program is writing it")

// Take takes the lock of a path, a file only for the lock. The file contains the number of the
// holding process.
func Take(path string) (release func(), err error) {
	f, err := lockPath(path)
	if err != nil {
		return nil, err
	}
	// The number is only information for people: the lock works without it.
	if f.Truncate(0) == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return func() { unlock(f) }, nil
}

// TakeFile locks an open data file. On Unix and Windows, closing the file releases the lock.
func TakeFile(f *os.File) (release func(), err error) { return takeFile(f) }

// DescribeHolder returns the holder of a path's lock, as far as known.
func DescribeHolder(path string) string {
	text, err := os.ReadFile(path)
	if err == nil && len(text) < 20 {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return fmt.Sprintf("process %d", pid)
		}
	}
	return "another process"
}

// newHeld returns ErrHeld with advice.
func newHeld(path string) error { return fmt.Errorf("%w%s", ErrHeld, Remedy(path)) }

// IsFileAt reports whether a path still leads to an open file.
func IsFileAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	current, statErr := os.Lstat(path)
	return err == nil && statErr == nil && os.SameFile(opened, current)
}
