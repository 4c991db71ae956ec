package loop

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/learn"
)

// TestDamagedStoreExits: a damaged file of a store has the exit code of damaged files.
func TestDamagedStoreExits(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{{learn.ErrDamaged, cli.ExitIntegrity}, {learn.ErrInUse, cli.ExitFailure}} {
		var out bytes.Buffer
		a := &cli.App{Stdout: &out, Stderr: &out}
		if code := a.Report((&learning{}).learnFailure(fmt.Errorf("learn: store/1: %w", c.err))); code != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.err, code, c.code, out.String())
		}
	}
}
