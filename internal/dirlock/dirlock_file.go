//go:build unix || windows

package dirlock

import "os"

func take(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hold(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// let leaves the file there: removing it would let two processes lock two files of
// the same name.
func let(f *os.File) { f.Close() }

func takeFile(f *os.File) (release func(), err error) { return func() {}, hold(f) }

// hold locks an open file until it is closed.
func hold(f *os.File) error {
	free, err := lock(f)
	switch {
	case err != nil:
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	case !free || !IsAt(f, f.Name()): // it was renamed or removed meanwhile
		return held(f.Name())
	}
	return nil
}

// Remedy is what to do after a crash: nothing, the system has released the lock.
func Remedy(string) string { return "" }
