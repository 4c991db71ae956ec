package replay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
	"github.com/eusn-stream/eusn-stream/internal/durable"
)

// Errors of an existing file.
var (
	// ErrExists reports a complete file of predictions, or an unrelated file.
	ErrExists = errors.New("it exists and was not changed")
	// ErrInUse reports that another computation writes the file.
	ErrInUse = dirlock.ErrHeld
	// ErrOther reports that the computation was begun with another request.
	ErrOther = errors.New("it was begun with something else")
	// ErrRemains reports the file of a computation that cannot be continued.
	ErrRemains = errors.New("it cannot be continued")
	// ErrUnusable reports an input without a usable message.
	ErrUnusable = errors.New("no message can be used")
)

// output is the growing file of predictions. A lock excludes other writers.
type output struct {
	path    string
	file    *os.File // path.part
	size    int64    // written
	release func()   // the lock, after closing
}

func partPath(path string) string     { return path + ".part" }
func positionPath(path string) string { return path + ".position" }

// openOutput opens the growing file and reads its position: without a position, the file is new and empty.
func openOutput(path string) (o *output, at *backfillPosition, state []byte, err error) {
	if there, err := os.Lstat(partPath(path)); err == nil && !there.Mode().IsRegular() {
		what := "no regular file"
		if there.Mode()&fs.ModeSymlink != 0 {
			what = "a symbolic link"
		}
		return nil, nil, nil, fmt.Errorf("backfill: %s is %s, want a file, or nothing: %w", partPath(path), what, ErrRemains)
	}
	file, err := os.OpenFile(partPath(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("backfill: %w", err)
	}
	release, err := dirlock.TakeFile(file)
	if err != nil {
		file.Close()
		return nil, nil, nil, fmt.Errorf("backfill: %s: %w", partPath(path), err)
	}
	o = &output{path: path, file: file, release: release}
	if at, state, err = o.position(); err != nil {
		o.leave()
		return nil, nil, nil, err
	}
	return o, at, state, nil
}

// position returns the progress of an earlier computation, or nil.
func (o *output) position() (*backfillPosition, []byte, error) {
	part, position := partPath(o.path), positionPath(o.path)
	_, exists := os.Lstat(o.path) // with the lock: another one may just have completed it
	p, state, err := readPosition(position)
	switch {
	case exists == nil && err == nil && p.Over: // it was killed before it could tidy up
		return nil, nil, errors.Join(fmt.Errorf("backfill: %s: %w", o.path, ErrExists), os.Remove(position))
	case exists == nil:
		return nil, nil, fmt.Errorf("backfill: %s: %w", o.path, ErrExists)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("%w: %w", ErrRemains, err)
	}
	there, stat := o.file.Stat()
	switch {
	case stat != nil:
		return nil, nil, fmt.Errorf("backfill: %w", stat)
	case err != nil && there.Size() > 0:
		return nil, nil, fmt.Errorf("backfill: %s holds %d bytes, but %s is not there: %w", part, there.Size(), position, ErrRemains)
	case err != nil:
		return nil, nil, nil
	case there.Size() < p.Bytes:
		return nil, nil, fmt.Errorf("backfill: %s holds %d bytes, but %s says that %d were written: %w", part, there.Size(), position, p.Bytes, ErrRemains)
	}
	return &p, state, nil
}

// goOn cuts off the data after a position.
func (o *output) goOn(at int64) error {
	if err := o.file.Truncate(at); err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	if _, err := o.file.Seek(at, io.SeekStart); err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	o.size = at
	return nil
}

func (o *output) write(lines []byte) error {
	n, err := o.file.Write(lines)
	o.size += int64(n)
	if err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	return nil
}

// save makes the written lines durable, and then the position.
func (o *output) save(p *backfillPosition, state []byte) error {
	p.Bytes = o.size
	b, err := p.encode(state)
	if err != nil {
		return err
	}
	if err := durable.Sync(o.file); err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	if err := replaceFile(positionPath(o.path), b); err != nil {
		return fmt.Errorf("backfill: position: %w", err)
	}
	return nil
}

// complete gives the fully saved file its name.
func (o *output) complete() error {
	if err := os.Rename(partPath(o.path), o.path); err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	if err := durable.SyncFolder(filepath.Dir(o.path)); err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	if err := os.Remove(positionPath(o.path)); err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	return nil
}

// leave closes the file. An empty file without a position has no use and is removed.
func (o *output) leave() {
	there, err := o.file.Stat()
	_, position := os.Lstat(positionPath(o.path))
	if err == nil && there.Size() == 0 && errors.Is(position, fs.ErrNotExist) && dirlock.IsFileAt(o.file, partPath(o.path)) {
		os.Remove(partPath(o.path))
	}
	o.file.Close()
	o.release()
}
