package offlinecmd

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/internal/telemetry"
)

// Tests see no machine's counters: each test would measure seconds of idle power.
func init() { cpuMeter = func() (energy.Meter, error) { return energy.OpenRAPL(os.DevNull) } }

// SetMeter gives a test a processor with a counter.
func SetMeter(t *testing.T, meter func() (energy.Meter, error), idle time.Duration) {
	was, wasIdle := cpuMeter, idleTime
	t.Cleanup(func() { cpuMeter, idleTime = was, wasIdle })
	cpuMeter, idleTime = meter, idle
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
		want(0, "B reports neither energy nor power")
		list = list[:1]
		want(0, "NVML has no card at b")
		fails = errors.New("GPU is lost")
		want(0, "lost")
	})
}
