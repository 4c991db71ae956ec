package paper

import (
	"errors"
	"os"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
)

// lockFile locks a results file for this process until the file is closed or the process
// ends in any way.
func lockFile(f *os.File) error {
	_, err := dirlock.TakeFile(f)
	if errors.Is(err, dirlock.ErrHeld) {
		return ErrInUse
	}
	return err
}

// ErrInUse reports that another process is writing the results file.
var ErrInUse = errors.New("another run is writing this file")
