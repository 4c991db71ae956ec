//go:build !unix

package backfill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// lock makes a file beside f that no other process can make. When the process is
// killed it stays, and a person has to remove it.
func lock(f *os.File) error {
	l, err := os.OpenFile(f.Name()+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w (after a crash remove %s.lock)", ErrInUse, f.Name())
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// syncDir does nothing: folders cannot be synced everywhere.
func syncDir(string) error { return nil }

func unlock(f *os.File) { os.Remove(f.Name() + ".lock") }
