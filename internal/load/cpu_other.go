//go:build !unix

package load

import (
	"errors"
	"time"
)

// CPUTime is unavailable on this system.
func CPUTime() (time.Duration, error) {
	return 0, errors.New("load: the CPU time of this process can be read on Linux, macOS and BSD only")
}
