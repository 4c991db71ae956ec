//go:build chaos

package pipeline

import (
	"fmt"
	"slices"
)

// Unsafe leaves a safety of the stage out; stage.go says which there are. It
// exists only with the build tag chaos, for a harness that has to see what
// happens then.
func (s *Stage) Unsafe(mode string) error {
	modes := []string{"", unsafeNoFence, unsafeNoDedup, unsafeMsgID, unsafeNoAhead, unsafeNoInput, unsafeNoDigest, unsafeNoReset, unsafeAnyModel}
	if !slices.Contains(modes, mode) {
		return fmt.Errorf("pipeline: unsafe mode %q, want one of %q", mode, modes)
	}
	s.unsafe = mode
	return nil
}
