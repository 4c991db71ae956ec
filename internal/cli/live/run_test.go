package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// TestStopWithoutCommitIsAFailure: a stage that could not commit its last batch
// did not stop well, and must not say that nothing was published.
func TestStopWithoutCommitIsAFailure(t *testing.T) {
	var errOut bytes.Buffer
	a := &cli.App{Stderr: &errOut}
	code := a.Report(stopFailure(fmt.Errorf("commit on eusn.out.3: %w", context.Canceled), 10*time.Second))
	for _, part := range []string{"could not be committed within 10s", "eusn.out.3", "try:"} {
		if code != cli.ExitFailure || !strings.Contains(errOut.String(), part) {
			t.Errorf("code %d, messages lack %q:\n%s", code, part, errOut.String())
		}
	}
	other := errors.New("other")
	if got := stopFailure(other, time.Second); got != other {
		t.Errorf("another error became %v", got)
	}
}

func TestParseSpeed(t *testing.T) {
	for s, want := range map[string]float64{"max": 0, "1x": 1, "10x": 10, "2.5": 2.5} {
		if v, err := parseSpeed(s); err != nil || v != want {
			t.Errorf("speed %s is %v, %v; want %v", s, v, err, want)
		}
	}
	for _, s := range []string{"", "x", "0x", "-1x", "fast", "NaNx"} {
		if _, err := parseSpeed(s); err == nil {
			t.Errorf("speed %q is taken", s)
		}
	}
}
