package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ReachedPosition returns the position of the newest file in a folder. ReachedPosition
// may run in parallel to a recorder: an existing file is complete.
func ReachedPosition(dir string, files Files) (p Position, err error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return p, fmt.Errorf("record: %w", err)
	}
	newest, path := 0, ""
	for _, e := range names {
		job := e.Name()[:max(0, strings.LastIndexByte(e.Name(), '-'))]
		if n, ok := numberOf(job, e.Name()); ok && n > newest {
			newest, path = n, filepath.Join(dir, e.Name())
		}
	}
	if newest == 0 {
		return p, fmt.Errorf("record: %s has no file of a recording: %w", dir, os.ErrNotExist)
	}
	meta, err := files.Read(path, nil)
	if err == nil {
		p, err = decodePosition(meta)
	}
	if err != nil {
		return p, fmt.Errorf("record: %s: %w", path, err)
	}
	return p, nil
}
