//go:build !unix && !windows

package dirlock

import (
	"errors"
	"io/fs"
	"os"
)

func lockPath(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, newHeld(path)
	}
	return f, err
}

func unlock(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// takeFile creates a lock file next to f.
func takeFile(f *os.File) (release func(), err error) { return Take(f.Name() + ".lock") }

// Remedy returns the advice after a crash.
func Remedy(path string) string { return " (after a crash remove " + path + ")" }

// Sync does nothing: the system has no call for syncing, and writes directory names by
// itself.
func Sync(string) error { return nil }
