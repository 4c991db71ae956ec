//go:build !unix && !windows

package dirlock

import (
	"errors"
	"io/fs"
	"os"
)

func take(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, held(path)
	}
	return f, err
}

func let(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// takeFile makes a file beside f.
func takeFile(f *os.File) (release func(), err error) { return Take(f.Name() + ".lock") }

// Remedy is what to do after a crash.
func Remedy(path string) string { return " (after a crash remove " + path + ")" }

// Sync does nothing: the system has no such call, and keeps the names of a directory
// by itself.
func Sync(string) error { return nil }
