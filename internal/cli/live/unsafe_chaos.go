//go:build chaos

package live

import (
	"os"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// makeUnsafe leaves out the safety that EUSN_UNSAFE names, for the fault
// harness's negative controls.
func makeUnsafe(s *pipeline.Worker) error { return s.Unsafe(os.Getenv("EUSN_UNSAFE")) }
