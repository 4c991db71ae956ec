//go:build !unix

package learn

import (
	"fmt"
	"os"
	"path/filepath"
)

// lock makes a file that no other process can make. When the process is killed
// the file stays, and a person has to remove it.
func lock(dir string) (release func(), err error) {
	name := filepath.Join(dir, "lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("learn: %s: %w (after a crash remove %s): %v", dir, ErrInUse, name, err)
	}
	return func() { f.Close(); os.Remove(name) }, nil
}

// syncDir does nothing: the system has no such call.
func syncDir(string) error { return nil }
