//go:build chaos

package pipeline

import "fmt"

// Unsafe leaves a safety of the stage out: "nofence", "nodedup" or "msgid".
// It exists only with the build tag chaos, for a harness that has to see what
// happens then.
func (s *Stage) Unsafe(mode string) error {
	switch mode {
	case "", unsafeNoFence, unsafeNoDedup, unsafeMsgID:
		s.unsafe = mode
		return nil
	}
	return fmt.Errorf("pipeline: unsafe mode %q, want nofence, nodedup or msgid", mode)
}
