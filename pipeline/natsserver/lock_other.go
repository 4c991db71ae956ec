//go:build !unix

package natsserver

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockDir makes dir, its owner's alone, and a lock file that no other process may make. Where the
// process is killed the file stays and has to be removed by hand.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("pipeline: data directory %s cannot be made: %w", dir, err)
	}
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pipeline: data directory %s is in use or not writable: %w (after a crash remove %s)", dir, err, path)
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() {
	l.file.Close()
	os.Remove(l.file.Name())
}
