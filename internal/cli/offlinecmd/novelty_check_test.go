package offlinecmd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
)

// TestDetectorChecksItself: a detector trained on two unlike stretches finds nothing, and retrain reports this; a
// detector trained on many stretches finds each signal.
func TestDetectorChecksItself(t *testing.T) {
	for _, c := range []struct {
		streams, length, least, most int
		warnings                     []string
	}{
		{2, 8000, 0, 0, []string{
			"warning: the detector finds less than half of white noise, zeros, a stuck value, a square wave: it may find no fault either",
			"warning: the training sequences come from 2 separate stretches or groups",
		}},
		{13, 1200, 0, 0, []string{"warning: the detector finds less than half of"}}, // one of them unlike the others
		{16, 1000, 32, 32, nil},
	} {
		dir := t.TempDir()
		csv, archive := filepath.Join(dir, "r.csv"), filepath.Join(dir, "r.parquet")
		var b strings.Builder
		b.WriteString("stream,x\n")
		rng := rand.New(rand.NewPCG(5, 6))
		for s := range c.streams {
			fast := s%2 == 1
			if c.streams == 13 {
				fast = s == 12
			}
			for i := range c.length {
				x := math.Sin(.2 * float64(i))
				if fast {
					x = 3 * math.Sin(.9*float64(i))
				}
				fmt.Fprintf(&b, "s%d,%.4f\n", s, x+.05*rng.NormFloat64())
			}
		}
		clitest.Write(t, csv, b.String())
		clitest.Must(t, "import", csv, "--output", archive)
		retrain := []string{"train", archive, "--output", filepath.Join(dir, "m.safetensors"), "--bank", "tiny", "--policy", "count", "--length", "50", "--healthy-only"} // windows have means, too
		r := clitest.Must(t, retrain...)
		for _, want := range c.warnings {
			if !strings.Contains(r.ErrOut, want) {
				t.Errorf("%d streams: messages lack %q:\n%s", c.streams, want, r.ErrOut)
			}
		}
		if len(c.warnings) == 0 && strings.Contains(r.ErrOut, "warning") {
			t.Errorf("%d streams: %s", c.streams, r.ErrOut)
		}
		var report struct{ Report offline.RetrainReport }
		clitest.Must(t, append(retrain, "--json")...).Parse(t, &report)
		checks := report.Report.Novelty.Checks
		if len(checks) != 4 {
			t.Fatalf("checks: %+v", checks)
		}
		for _, check := range checks {
			if check.Sequences != 32 || check.Novel < c.least || c.most < c.least || check.Novel > 32 || c.most == 0 && check.Novel > 15 {
				t.Errorf("%d streams: %+v, want %d to %d novel", c.streams, check, c.least, c.most)
			}
		}
	}
}
