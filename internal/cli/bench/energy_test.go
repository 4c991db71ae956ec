//go:build linux && cgo

package bench

import (
	"bytes"
	"cmp"
	"math"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/telemetry"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// The energy of a row is the counter's difference, and empty without a counter.
func TestBenchEnergy(t *testing.T) {
	const source = "../../../internal/telemetry/testdata/nvml.c"
	if _, err := os.ReadFile(source); err != nil { // or the test cache would not see it change
		t.Fatal(err)
	}
	lib := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := osexec.Command(cmp.Or(os.Getenv("CC"), "cc"), "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	saved := telemetry.Library
	t.Cleanup(func() { telemetry.Library = saved })
	k := benchKind{name: "generic", open: func(net *reservoir.Network, slots, _ int) (reservoir.Engine, error) {
		return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
	}}
	b, err := newEngineBench(k, benchShape{units: 4, inputs: 1, streams: 10, steps: 5}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.engine.Close()
	for _, c := range []struct{ library, pci, missing string }{
		{lib, "0000:1b:00.0", ""},
		{lib, "0000:1c:00.0", "Fake GPU 1 has no energy counter"},
		{lib, "0000:ff:00.0", "NVML has no card"},
		{"/nonexistent.so", "0000:1b:00.0", "/nonexistent.so"},
	} {
		telemetry.Library, b.energy = c.library, rowEnergy{}
		if err := b.measureEnergy(t.Context(), c.pci, time.Nanosecond); err != nil {
			t.Fatal(err)
		}
		// A call of 50 steps. The fake's counter rises by 1.5 J with every reading of a card, and a reading reads
		// both cards.
		e := b.energy
		if measured := e.Joules != 0 && e.Watts != 0; measured != (c.missing == "") || measured && math.Abs(e.Joules-3/50e-6) > 1e-6*e.Joules {
			t.Errorf("%+v: %+v", c, e)
		}
		if c.missing != "" && (!strings.HasPrefix(e.Missing, "not measured: ") || !strings.Contains(e.Missing, c.missing)) {
			t.Errorf("energy %q, want it to say %q", e.Missing, c.missing)
		}
		var out bytes.Buffer
		b.rates = []float64{1e9}
		if err := (&benchPrinter{app: &cli.App{Stdout: &out, JSON: true}}).engine(b.row()); err != nil {
			t.Fatal(err)
		}
		if s := out.String(); strings.Contains(s, `"joules_per_mstep":`) != (c.missing == "") || strings.Contains(s, `"energy":"not measured`) != (c.missing != "") {
			t.Errorf("printed %s", s)
		}
	}
}
