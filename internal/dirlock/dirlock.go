package dirlock

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrHeld is a lock that another process holds.
var ErrHeld = errors.New("another program is writing it")

// Take takes the lock of that path, a file that only the lock uses. It contains the
// number of the process that has it.
func Take(path string) (release func(), err error) {
	f, err := take(path)
	if err != nil {
		return nil, err
	}
	// The number only helps a person: the lock holds without it.
	if f.Truncate(0) == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return func() { let(f) }, nil
}

// TakeFile takes the lock of a file that is open for other things. On Unix and Windows,
// closing the file releases it.
func TakeFile(f *os.File) (release func(), err error) { return takeFile(f) }

// Holder says which process holds the lock of that path, as far as that is known.
func Holder(path string) string {
	text, err := os.ReadFile(path)
	if err == nil && len(text) < 20 {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return fmt.Sprintf("process %d", pid)
		}
	}
	return "another process"
}

// held is ErrHeld and what to do.
func held(path string) error { return fmt.Errorf("%w%s", ErrHeld, Remedy(path)) }

// IsAt reports whether a path is that of a file, and not of another one that has
// taken its place.
func IsAt(file *os.File, path string) bool {
	own, err := file.Stat()
	there, other := os.Lstat(path)
	return err == nil && other == nil && os.SameFile(own, there)
}
