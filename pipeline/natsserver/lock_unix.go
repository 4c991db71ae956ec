//go:build unix

package natsserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockDir creates dir, with access for its owner only, and takes an exclusive
// lock, which the system releases when the process ends.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsserver: cannot create the data directory %s: %w", dir, err)
	}
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("natsserver: data directory %s is not writable: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("natsserver: data directory %s: lock %s: %w", dir, path, err)
		}
		holder := make([]byte, 20)
		n, _ := f.Read(holder)
		who := "another process"
		if pid, err := strconv.Atoi(strings.TrimSpace(string(holder[:n]))); err == nil {
			who = fmt.Sprintf("process %d", pid)
		}
		return nil, fmt.Errorf("natsserver: data directory %s is in use by %s: stop it, connect to its server, or choose another directory", dir, who)
	}
	// The number only helps a person; the lock holds without it.
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() {
	// The file stays: removing it would let two processes lock two files of
	// the same name.
	l.file.Close()
}
