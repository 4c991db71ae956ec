package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	counter   = prometheus.CounterValue
	gauge     = prometheus.GaugeValue
	histogram = prometheus.UntypedValue + 1 // Prometheus keeps no value type for it
)

// metric is one name in what is exported.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	desc       *prometheus.Desc
}

func define(kind prometheus.ValueType, name, help string, labels ...string) *metric {
	return &metric{name, help, kind, labels, prometheus.NewDesc(name, help, labels, nil)}
}

func describe(out chan<- *prometheus.Desc, all []*metric) {
	for _, m := range all {
		out <- m.desc
	}
}

func (m *metric) send(out chan<- prometheus.Metric, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

// sendHistogram turns counts of buckets into counts up to each bound, as
// Prometheus wants them.
func (m *metric) sendHistogram(out chan<- prometheus.Metric, h pipeline.Histogram) {
	buckets, n := map[float64]uint64{}, uint64(0)
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		buckets[bound] = n
	}
	n += h.Counts[len(h.Bounds)]
	out <- prometheus.MustNewConstHistogram(m.desc, n, h.Sum, buckets)
}
