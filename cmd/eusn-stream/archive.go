package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/offline"
)

// readArchive reads a dataset archive. A directory stands for the only
// archive in it.
func readArchive(path string) (*offline.Dataset, error) {
	if there, err := os.Stat(path); err == nil && there.IsDir() {
		found, _ := filepath.Glob(filepath.Join(path, "*.parquet"))
		if len(found) != 1 {
			return nil, fail(exitFailure, fmt.Errorf("%s is a folder with %d archives (*.parquet), want one of them", path, len(found)), "the archive's own name")
		}
		path = found[0]
	}
	if err := wholeFile(path); err != nil {
		return nil, err
	}
	d, err := offline.ReadArchive(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitFailure, fmt.Errorf("no archive %s: %w", path, fs.ErrNotExist), "eusn-stream offline import DIR --name NAME --out "+quoteForShell(path))
	}
	return d, fail(exitFailure, err, "another file, or make the archive anew with eusn-stream offline import")
}
