package metrics

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eusn-stream/eusn-stream/internal/telemetry"
)

// fixed are GPUs with fixed readings.
type fixed struct {
	list  []telemetry.Reading
	err   error
	reads int
}

func (f *fixed) Read() ([]telemetry.Reading, error) { f.reads++; return f.list, f.err }

func cards() []telemetry.Reading {
	return []telemetry.Reading{
		{Index: 0, UUID: "GPU-0", PCI: "0000:1b:00.0", Name: "Card A", Energy: 12.5, Power: 98.5, MemoryUsed: 600, MemoryTotal: 1000, Utilization: .75, MemoryBusy: .25, Temperature: 41},
		{Index: 2, UUID: "GPU-2", PCI: "0000:1d:00.0", Name: "Card B", MemoryUsed: 7, MemoryTotal: 8, Missing: []string{"energy_j", "power_w", "utilization", "memory_busy", "temperature_c"}},
	}
}

func TestGPUs(t *testing.T) {
	f := &fixed{list: cards()}
	var log bytes.Buffer
	now := time.Unix(1000, 0)
	g := &gpus{reader: f, log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }, patience: patience}
	want := `
# HELP eusn_gpu_energy_joules_total Energy since the driver was loaded.
# TYPE eusn_gpu_energy_joules_total counter
eusn_gpu_energy_joules_total{gpu="0",uuid="GPU-0"} 12.5
# HELP eusn_gpu_info 1: which card this is.
# TYPE eusn_gpu_info gauge
eusn_gpu_info{gpu="0",name="Card A",pci="0000:1b:00.0",uuid="GPU-0"} 1
eusn_gpu_info{gpu="2",name="Card B",pci="0000:1d:00.0",uuid="GPU-2"} 1
# HELP eusn_gpu_memory_busy_ratio Share in which memory was read or written, 0 to 1.
# TYPE eusn_gpu_memory_busy_ratio gauge
eusn_gpu_memory_busy_ratio{gpu="0",uuid="GPU-0"} 0.25
# HELP eusn_gpu_memory_total_bytes Memory of the card.
# TYPE eusn_gpu_memory_total_bytes gauge
eusn_gpu_memory_total_bytes{gpu="0",uuid="GPU-0"} 1000
eusn_gpu_memory_total_bytes{gpu="2",uuid="GPU-2"} 8
# HELP eusn_gpu_memory_used_bytes Memory in use, by all programs.
# TYPE eusn_gpu_memory_used_bytes gauge
eusn_gpu_memory_used_bytes{gpu="0",uuid="GPU-0"} 600
eusn_gpu_memory_used_bytes{gpu="2",uuid="GPU-2"} 7
# HELP eusn_gpu_power_watts Power, a mean over about a second on recent cards.
# TYPE eusn_gpu_power_watts gauge
eusn_gpu_power_watts{gpu="0",uuid="GPU-0"} 98.5
# HELP eusn_gpu_temperature_celsius Temperature of the card.
# TYPE eusn_gpu_temperature_celsius gauge
eusn_gpu_temperature_celsius{gpu="0",uuid="GPU-0"} 41
# HELP eusn_gpu_utilization_ratio Share of the last sampling period in which a kernel ran, 0 to 1.
# TYPE eusn_gpu_utilization_ratio gauge
eusn_gpu_utilization_ratio{gpu="0",uuid="GPU-0"} 0.75
`
	compare := func(want string) {
		t.Helper()
		if err := testutil.CollectAndCompare(g, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
	compare(want)
	reads := f.reads
	compare(want)
	if f.reads != reads {
		t.Errorf("the driver was asked again within %v", readingAge)
	}
	f.list, f.err = nil, fmt.Errorf("telemetry: device 0: GPU is lost (error 15)")
	compare(want) // still the last reading
	now = now.Add(readingAge)
	compare("")
	now = now.Add(readingAge)
	compare("")
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "GPU is lost") {
		t.Errorf("%d lines in the log, want 1:\n%s", n, log.String())
	}
	f.list, f.err = cards(), nil
	now = now.Add(readingAge)
	compare(want)
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines in the log, want 2:\n%s", n, log.String())
	}
}

// deaf are GPUs with a driver that answers only after a release.
type deaf struct{ asked, through chan struct{} }

func (d *deaf) Read() ([]telemetry.Reading, error) {
	d.asked <- struct{}{}
	<-d.through
	return cards(), nil
}

// TestGPUHangs: a hanging driver is asked once for any number of scrapes, and blocks only its own
// metrics.
func TestGPUHangs(t *testing.T) {
	d := &deaf{make(chan struct{}, 100), make(chan struct{})}
	var log bytes.Buffer
	g := &gpus{reader: d, log: slog.New(slog.NewTextHandler(&log, nil)), now: time.Now, patience: 10 * time.Millisecond}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if list := g.currentReadings(); list != nil {
				t.Errorf("read %v of a driver that does not answer", list)
			}
		})
	}
	all.Wait()
	if n := len(d.asked); n != 1 {
		t.Errorf("the driver was asked %d times, want once", n)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "not answered within 10ms") {
		t.Errorf("%d lines in the log, want 1:\n%s", n, log.String())
	}
	close(d.through)
	waitUntil(t, "readings", func() bool { return len(g.currentReadings()) == 2 })
	if !strings.HasSuffix(log.String(), "the GPUs can be read again\"\n") {
		t.Errorf("log:\n%s", log.String())
	}
}
