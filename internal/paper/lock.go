package paper

import (
	"errors"
	"os"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
)

// lock takes a results file for this process until it is closed, or the process
// ends, however it ends.
func lock(f *os.File) error {
	_, err := dirlock.TakeFile(f)
	if errors.Is(err, dirlock.ErrHeld) {
		return ErrInUse
	}
	return err
}
