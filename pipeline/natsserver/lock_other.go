//go:build !unix

package natsserver

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockDir creates dir, with access for its owner only, and a lock file that no
// other process can create. When the process is killed the file stays, and a
// person has to remove it.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsserver: cannot create the data directory %s: %w", dir, err)
	}
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("natsserver: data directory %s is in use or not writable: %w (after a crash remove %s)", dir, err, path)
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() {
	l.file.Close()
	os.Remove(l.file.Name())
}
