package offlinecmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/offlinecmd"
	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// steps counts a joule more at every reading.
type steps struct{ n float64 }

func (s *steps) Source() string { return "steps" }

func (s *steps) Joules() (float64, error) { s.n++; return s.n, nil }

// A missing measurement is reported with its reason, and is no field of a cell.
func TestPaperEnergy(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	args := []string{"offline", "paper", "tables", archive, "--configurations", "2", "--draws", "1", "--models", "esn", "--output"}
	const why = "energy of the CPU is not measured: "
	clitest.Exec(t, t.Context(), append(args, filepath.Join(dir, "a"))...).Want(t, cli.ExitOK, why, os.DevNull)
	r := clitest.Must(t, append(args, filepath.Join(dir, "b"), "--json")...)
	if !strings.Contains(r.Out, `"unmeasured"`) || !strings.Contains(r.Out, why) || strings.Contains(r.Out, `_wh"`) || strings.Contains(r.Out, `"wh"`) {
		t.Errorf("--json without a counter:\n%s", r.Out)
	}

	offlinecmd.SetMeter(t, func() (energy.Meter, error) { return &steps{}, nil }, time.Millisecond)
	var report paperReport
	out := filepath.Join(dir, "c")
	r = clitest.Must(t, append(args, out, "--json")...)
	r.Parse(t, &report)
	c := report.Cells[0]
	if c.Energy.CPU == nil || c.Energy.CPU.Gross <= 0 || c.SearchEnergy.CPU == nil || c.Energy.GPU != nil || strings.Contains(r.Out, "unmeasured") {
		t.Errorf("with a counter:\n%s", r.Out)
	}
	if table := clitest.Must(t, append(args, out, "--resume")...); !strings.Contains(table.Out, "CPU search Wh") || strings.Contains(table.ErrOut, "energy") {
		t.Errorf("with a counter:\n%s%s", table.Out, table.ErrOut)
	}
	// A run without a counter has no energy, and none is invented.
	clitest.Exec(t, t.Context(), append(args, filepath.Join(dir, "a"), "--resume")...).Want(t, cli.ExitOK, "1 of 1 cells have trials or draws that ran without a counter")
}
