//go:build unix

package listen

import (
	"math"
	"syscall"
)

// OpenFiles is how many files the process may have open. The runtime of Go has raised
// the limit as far as the system allows. ok is false where there is no limit.
func OpenFiles() (limit int, ok bool) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || uint64(r.Cur) > math.MaxInt32 {
		return 0, false
	}
	return int(r.Cur), true
}
