//go:build !unix

package bench

import (
	"errors"
	"time"
)

// cpuTime is not known here.
func cpuTime() (time.Duration, error) {
	return 0, errors.New("bench: --only messages reads the CPU time of this process, which it can do on Linux, macOS and BSD only")
}
