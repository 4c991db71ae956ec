package inlog

import (
	"errors"
	"os"
)

// ErrInUse is a file that another program writes.
var ErrInUse = errors.New("another program is writing it")

// IsAt reports whether a path is that of a file, and not of another one that has
// taken its place.
func IsAt(file *os.File, path string) bool {
	own, err := file.Stat()
	there, other := os.Lstat(path)
	return err == nil && other == nil && os.SameFile(own, there)
}
