package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
)

// Files makes and reads the files of a recording.
type Files interface {
	// Create begins a file. Until Close, path does not exist; the data is in a file
	// with a dot before the name and a suffix that ends in .tmp.
	Create(path string) (File, error)
	// Read returns a file's metadata, and passes its samples in order to take unless
	// take is nil.
	Read(path string, take func(*Rows) error) (map[string]string, error)
}

// File is a file in writing.
type File interface {
	Write(*Rows) error // the rows stay the caller's
	Size() int64       // approximate size in bytes
	// Close moves the file to the final path, durably, with more metadata.
	Close(meta map[string]string) error
	Abort() // removes the file
}

const (
	suffix   = ".parquet"
	lockName = ".lock"
	digits   = 8
)

// folder is the locked folder of a recording.
type folder struct {
	dir, job string
	leave    func()
	newest   int // number of the last file; 0 = none
}

// openFolder creates the folder if missing, locks it, and removes incomplete files of
// an earlier run.
func openFolder(dir, job string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	release, err := dirlock.Take(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("record: %s: %w", dir, err)
	}
	f := &folder{dir: dir, job: job, leave: release}
	if err := f.readFolder(); err != nil {
		f.leave()
		return nil, err
	}
	return f, nil
}

// readFolder lists the files.
func (f *folder) readFolder() error {
	names, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	for _, e := range names {
		name := e.Name()
		if strings.HasPrefix(name, "."+f.job+"-") && strings.HasSuffix(name, ".tmp") {
			if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("record: %w", err)
			}
			continue
		}
		if n, ok := numberOf(f.job, name); ok {
			f.newest = max(f.newest, n)
		} else if strings.HasSuffix(name, suffix) {
			return fmt.Errorf("record: %s is no file of a recording of job %q: %w", filepath.Join(f.dir, name), f.job, ErrOther)
		}
	}
	return nil
}

// filePath returns the path of a file by number.
func (f *folder) filePath(n int) string {
	return filepath.Join(f.dir, fmt.Sprintf("%s-%0*d%s", f.job, digits, n, suffix))
}

// numberOf returns the number in a file's name.
func numberOf(job, name string) (int, bool) {
	text, ok := strings.CutPrefix(name, job+"-")
	if !ok {
		return 0, false
	}
	if text, ok = strings.CutSuffix(text, suffix); !ok || len(text) < digits {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0
}
