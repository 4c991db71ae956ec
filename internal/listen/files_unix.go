//go:build unix

package listen

import (
	"math"
	"syscall"
)

// OpenFiles returns the limit of open files of the process, which Go's runtime has already
// raised to the system's maximum; ok is false without a limit.
func OpenFiles() (limit int, ok bool) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || uint64(r.Cur) > math.MaxInt32 {
		return 0, false
	}
	return int(r.Cur), true
}
