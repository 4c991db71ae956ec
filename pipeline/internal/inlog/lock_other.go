//go:build !unix

package inlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Lock makes a file beside f that no other process can make. When the process is
// killed it stays, and a person has to remove it.
func Lock(f *os.File) error {
	l, err := os.OpenFile(f.Name()+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w (after a crash remove %s.lock)", ErrInUse, f.Name())
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// SyncDir does nothing: folders cannot be synced everywhere.
func SyncDir(string) error { return nil }

// Unlock removes it.
func Unlock(f *os.File) { os.Remove(f.Name() + ".lock") }
