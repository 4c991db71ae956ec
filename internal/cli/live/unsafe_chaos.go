//go:build chaos

package live

import (
	"os"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// makeUnsafe disables the safety check named by EUSN_UNSAFE, for the fault harness's
// negative controls.
func makeUnsafe(s *pipeline.Worker) error { return s.Unsafe(os.Getenv("EUSN_UNSAFE")) }
