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

// readingAge is how long a reading is reused: a driver request takes up to some milliseconds per
// card, and two scrapers may come together.
const readingAge = time.Second

// readingTime is how long a scrape waits for the driver. A driver that hangs on a lost card must
// not block the stage's metrics.
const readingTime = 2 * time.Second

// GPUs reads the state of a machine's GPUs: a telemetry.Reader.
type GPUs interface {
	Read() ([]telemetry.Reading, error)
}

// ofGPU are the metrics of one GPU. missing is the reading's field that has no value if
// telemetry.Reading.Missing names the field.
var ofGPU = []struct {
	*metric
	missing string
	value   func(r *telemetry.Reading) float64
}{
	{perGPU(counter, "eusn_gpu_energy_joules_total", "Energy since the driver was loaded."), "energy_j", func(r *telemetry.Reading) float64 { return r.Energy }},
	{perGPU(gauge, "eusn_gpu_power_watts", "Power, a mean over about a second on recent cards."), "power_w", func(r *telemetry.Reading) float64 { return r.Power }},
	{perGPU(gauge, "eusn_gpu_memory_used_bytes", "Memory in use, by all programs."), "memory_used", func(r *telemetry.Reading) float64 { return float64(r.MemoryUsed) }},
	{perGPU(gauge, "eusn_gpu_memory_total_bytes", "Memory of the card."), "memory_total", func(r *telemetry.Reading) float64 { return float64(r.MemoryTotal) }},
	{perGPU(gauge, "eusn_gpu_utilization_ratio", "Share of the last sampling period in which a kernel ran, 0 to 1."), "utilization", func(r *telemetry.Reading) float64 { return r.Utilization }},
	{perGPU(gauge, "eusn_gpu_memory_busy_ratio", "Share in which memory was read or written, 0 to 1."), "memory_busy", func(r *telemetry.Reading) float64 { return r.MemoryBusy }},
	{perGPU(gauge, "eusn_gpu_temperature_celsius", "Temperature of the card."), "temperature_c", func(r *telemetry.Reading) float64 { return r.Temperature }},
}

var gpuInfo = defineMetric(gauge, "eusn_gpu_info", "1: which card this is.", "gpu", "uuid", "pci", "name")

func perGPU(kind prometheus.ValueType, name, help string) *metric {
	return defineMetric(kind, name, help, "gpu", "uuid")
}

// gpus collects the readings of GPUs. Unreported values are absent.
type gpus struct {
	reader   GPUs
	log      *slog.Logger
	now      func() time.Time
	patience time.Duration // readingTime, except in tests

	mu     sync.Mutex
	asking chan struct{} // closed when the driver has answered; nil without a pending request
	at     time.Time     // time of the last answer
	last   []telemetry.Reading
	failed string // last logged error, empty after a success
}

func (g *gpus) metrics() []*metric {
	all := []*metric{gpuInfo}
	for _, m := range ofGPU {
		all = append(all, m.metric)
	}
	return all
}

// Describe implements prometheus.Collector.
func (g *gpus) Describe(out chan<- *prometheus.Desc) { describeAll(out, g.metrics()) }

// Collect implements prometheus.Collector.
func (g *gpus) Collect(out chan<- prometheus.Metric) {
	for _, r := range g.currentReadings() {
		index := strconv.Itoa(r.Index)
		gpuInfo.sendValue(out, 1, index, r.UUID, r.PCI, r.Name)
		for _, m := range ofGPU {
			if !slices.Contains(r.Missing, m.missing) {
				m.sendValue(out, m.value(&r), index, r.UUID)
			}
		}
	}
}

// currentReadings asks the driver, at most once per readingAge and one request at a time. Late
// answers are dropped.
func (g *gpus) currentReadings() []telemetry.Reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.at.IsZero() && g.now().Sub(g.at) < readingAge {
		return g.last
	}
	if g.asking == nil {
		g.asking = make(chan struct{})
		go g.askDriver(g.asking)
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
		g.logFailure(fmt.Errorf("the driver has not answered within %v", g.patience))
		return nil
	}
	return g.last
}

func (g *gpus) askDriver(done chan<- struct{}) {
	list, err := g.reader.Read()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.logFailure(err)
	g.at, g.last, g.asking = g.now(), list, nil
	close(done)
}

// logFailure logs a failure at its start, at changes and at its end; its cards have no metrics.
func (g *gpus) logFailure(err error) {
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
