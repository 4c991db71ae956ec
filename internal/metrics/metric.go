package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	counter   = prometheus.CounterValue
	gauge     = prometheus.GaugeValue
	histogram = prometheus.UntypedValue + 1 // Prometheus has no value type for histograms
)

// metric is an exported metric.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	desc       *prometheus.Desc
}

func defineMetric(kind prometheus.ValueType, name, help string, labels ...string) *metric {
	return &metric{name, help, kind, labels, prometheus.NewDesc(name, help, labels, nil)}
}

func describeAll(out chan<- *prometheus.Desc, all []*metric) {
	for _, m := range all {
		out <- m.desc
	}
}

func (m *metric) sendValue(out chan<- prometheus.Metric, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

// sendHistogram converts counts per bucket to cumulative counts, as Prometheus requires.
func (m *metric) sendHistogram(out chan<- prometheus.Metric, h pipeline.Histogram) {
	buckets, n := map[float64]uint64{}, uint64(0)
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		buckets[bound] = n
	}
	n += h.Counts[len(h.Bounds)]
	out <- prometheus.MustNewConstHistogram(m.desc, n, h.Sum, buckets)
}
