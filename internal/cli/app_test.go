package cli

import (
	"testing"
)

// --quiet has no progress, whatever --progress is.
func TestQuietProgress(t *testing.T) {
	if got := (&App{ProgressMode: "plain", Quiet: true}).display(); got != "none" {
		t.Errorf("mode %s, want none", got)
	}
}
