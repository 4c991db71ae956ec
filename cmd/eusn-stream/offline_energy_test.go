package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/gpu/telemetry"
	"github.com/eusn-stream/eusn-stream/internal/energy"
)

// Tests see no machine's counters: idle power of seconds would be measured in
// every one.
func init() { cpuMeter = func() (energy.Meter, error) { return energy.OpenRAPL(os.DevNull) } }

// steps counts a joule more at every reading.
type steps struct{ n float64 }

func (s *steps) Source() string           { return "steps" }
func (s *steps) Joules() (float64, error) { s.n++; return s.n, nil }

// What cannot be measured is said with its reason, and is no field of a cell.
func TestOfflineBenchEnergy(t *testing.T) {
	archive, dir := importTiny(t, 2), t.TempDir()
	args := []string{"offline", "bench", archive, "--configurations", "2", "--draws", "1", "--models", "esn", "--out"}
	const why = "energy of the CPU is not measured: energy: "
	exec(t, t.Context(), append(args, filepath.Join(dir, "a"))...).want(t, exitOK, why, os.DevNull)
	r := must(t, append(args, filepath.Join(dir, "b"), "--json")...)
	if !strings.Contains(r.out, `"unmeasured"`) || !strings.Contains(r.out, why) || strings.Contains(r.out, `_wh"`) || strings.Contains(r.out, `"wh"`) {
		t.Errorf("--json without a counter:\n%s", r.out)
	}

	meter, idle := cpuMeter, idleTime
	t.Cleanup(func() { cpuMeter, idleTime = meter, idle })
	cpuMeter, idleTime = func() (energy.Meter, error) { return &steps{}, nil }, time.Millisecond
	var report offlineBenchReport
	out := filepath.Join(dir, "c")
	r = must(t, append(args, out, "--json")...)
	r.parse(t, &report)
	c := report.Cells[0]
	if c.Energy.CPU == nil || c.Energy.CPU.Gross <= 0 || c.SearchEnergy.CPU == nil || c.Energy.GPU != nil || strings.Contains(r.out, "unmeasured") {
		t.Errorf("with a counter:\n%s", r.out)
	}
	if table := must(t, append(args, out, "--resume")...); !strings.Contains(table.out, "CPU search Wh") || strings.Contains(table.errOut, "energy") {
		t.Errorf("with a counter:\n%s%s", table.out, table.errOut)
	}
	// What another run did without a counter is not made up.
	exec(t, t.Context(), append(args, filepath.Join(dir, "a"), "--resume")...).want(t, exitOK, "1 of 1 cells have trials or draws that ran without a counter")
}

// A card is counted by its own counter, or by its power in time.
func TestCardMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		list := []telemetry.Reading{
			{Name: "A", PCI: "a", Energy: 1000, Power: 50},
			{Name: "B", PCI: "b", Power: 100, Missing: []string{"energy_j"}},
			{Name: "other", PCI: "c", Energy: 7},
		}
		m := newCardMeter(func() ([]telemetry.Reading, error) { return list, fails }, []gpu.Device{{Name: "A", PCI: "a"}, {Name: "B", PCI: "b"}})
		want := func(joules float64, says string) {
			t.Helper()
			j, err := m.Joules()
			if says != "" && (err == nil || !strings.Contains(err.Error(), says)) || says == "" && (err != nil || math.Abs(j-joules) > 1e-9) {
				t.Errorf("%g J, %v; want %g, %q", j, err, joules, says)
			}
		}
		want(0, "")
		time.Sleep(2 * time.Second)
		list[0].Energy, list[1].Power, list[2].Energy = 1025, 200, 1e6
		want(25+2*150, "")
		time.Sleep(time.Second)
		want(25+300+200, "")
		if s := m.Source(); s != "NVML a b" {
			t.Errorf("source %q", s)
		}
		list[1].Missing = []string{"energy_j", "power_w"}
		want(0, "B tells neither energy nor power")
		list = list[:1]
		want(0, "does not know the card at b")
		fails = errors.New("GPU is lost")
		want(0, "lost")
	})
}
