package metrics

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eusn-stream/eusn-stream/internal/telemetry"
)

// readingAge is how long a reading serves: asking the driver takes up to some
// milliseconds per card, and two scrapers may come at once.
const readingAge = time.Second

// readingTime is how long a scrape waits for the driver. One that hangs on a
// lost card must not take the stage's metrics along.
const readingTime = 2 * time.Second

// GPUs reads what a machine's GPUs say of themselves: a telemetry.Reader.
type GPUs interface {
	Read() ([]telemetry.Reading, error)
}

// ofGPU are the metrics of one GPU. missing is the reading's field that says
// nothing where telemetry.Reading.Missing names it.
var ofGPU = []struct {
	*metric
	missing string
	value   func(r *telemetry.Reading) float64
}{
	{perGPU(counter, "eusn_gpu_energy_joules_total", "Energy since the driver was loaded."), "energy_j", func(r *telemetry.Reading) float64 { return r.Energy }},
	{perGPU(gauge, "eusn_gpu_power_watts", "Power, a mean over about a second on recent cards."), "power_w", func(r *telemetry.Reading) float64 { return r.Power }},
	{perGPU(gauge, "eusn_gpu_memory_used_bytes", "Memory in use, by all programs."), "memory_used", func(r *telemetry.Reading) float64 { return float64(r.MemoryUsed) }},
	{perGPU(gauge, "eusn_gpu_memory_total_bytes", "Memory of the card."), "memory_total", func(r *telemetry.Reading) float64 { return float64(r.MemoryTotal) }},
	{perGPU(gauge, "eusn_gpu_utilisation_ratio", "Share of the last sampling period in which a kernel ran, 0 to 1."), "utilisation", func(r *telemetry.Reading) float64 { return r.Utilisation }},
	{perGPU(gauge, "eusn_gpu_memory_busy_ratio", "Share in which memory was read or written, 0 to 1."), "memory_busy", func(r *telemetry.Reading) float64 { return r.MemoryBusy }},
	{perGPU(gauge, "eusn_gpu_temperature_celsius", "Temperature of the card."), "temperature_c", func(r *telemetry.Reading) float64 { return r.Temperature }},
}

var gpuInfo = define(gauge, "eusn_gpu_info", "1: which card this is.", "gpu", "uuid", "pci", "name")

func perGPU(kind prometheus.ValueType, name, help string) *metric {
	return define(kind, name, help, "gpu", "uuid")
}

// gpus collects the readings of GPUs. A value that a GPU does not report is
// absent.
type gpus struct {
	reader   GPUs
	log      *slog.Logger
	now      func() time.Time
	patience time.Duration // readingTime, but for tests

	mu     sync.Mutex
	asking chan struct{} // closed when the driver has answered; nil while it is not asked
	at     time.Time     // when it answered last
	last   []telemetry.Reading
	failed string // what was logged last, empty after a success
}

func (g *gpus) metrics() []*metric {
	all := []*metric{gpuInfo}
	for _, m := range ofGPU {
		all = append(all, m.metric)
	}
	return all
}

// Describe implements prometheus.Collector.
func (g *gpus) Describe(out chan<- *prometheus.Desc) { describe(out, g.metrics()) }

// Collect implements prometheus.Collector.
func (g *gpus) Collect(out chan<- prometheus.Metric) {
	for _, r := range g.read() {
		index := strconv.Itoa(r.Index)
		gpuInfo.send(out, 1, index, r.UUID, r.PCI, r.Name)
		for _, m := range ofGPU {
			if !slices.Contains(r.Missing, m.missing) {
				m.send(out, m.value(&r), index, r.UUID)
			}
		}
	}
}

// read asks the driver, at most once per readingAge and one question at a time.
// Answers that come too late are left out.
func (g *gpus) read() []telemetry.Reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.at.IsZero() && g.now().Sub(g.at) < readingAge {
		return g.last
	}
	if g.asking == nil {
		g.asking = make(chan struct{})
		go g.ask(g.asking)
	}
	asking := g.asking
	g.mu.Unlock()
	late := time.NewTimer(g.patience)
	select {
	case <-asking:
	case <-late.C:
	}
	late.Stop()
	g.mu.Lock()
	if g.asking == asking {
		g.tell(fmt.Errorf("the driver has not answered within %v", g.patience))
		return nil
	}
	return g.last
}

func (g *gpus) ask(done chan<- struct{}) {
	list, err := g.reader.Read()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell(err)
	g.at, g.last, g.asking = g.now(), list, nil
	close(done)
}

// tell logs a failure when it begins, when it changes and when it ends; the
// cards it concerns are left out.
func (g *gpus) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == g.failed:
	case err != nil:
		g.log.Warn("a GPU cannot be read; its metrics are absent", "err", err)
	default:
		g.log.Info("the GPUs can be read again")
	}
	g.failed = text
}
