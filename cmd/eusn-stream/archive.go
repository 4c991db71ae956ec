package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/offline"
)

// readArchive reads a dataset archive. A directory stands for the only
// archive in it.
func readArchive(path string) (*offline.Dataset, error) {
	if found, _ := filepath.Glob(filepath.Join(path, "*.parquet")); len(found) == 1 {
		path = found[0]
	}
	d, err := offline.ReadArchive(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitFailure, fmt.Errorf("no archive %s: %w", path, fs.ErrNotExist), "eusn-stream offline import DIR --name NAME --out "+path)
	}
	return d, fail(exitFailure, err, "another file, or make the archive anew with eusn-stream offline import")
}
