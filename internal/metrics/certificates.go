package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eusn-stream/eusn-stream/internal/certs"
)

// certificateExpires is an absolute time, which is correct even long after the last scrape.
var certificateExpires = defineMetric(gauge, "eusn_certificate_expires_seconds", "When a certificate of this process ends, in seconds since 1970, by the key of the configuration that names it; absent where its file cannot be read.", "key")

type certificates struct{ watch *certs.Watch }

func (certificates) metrics() []*metric { return []*metric{certificateExpires} }

// Describe implements prometheus.Collector.
func (c certificates) Describe(out chan<- *prometheus.Desc) { describeAll(out, c.metrics()) }

// Collect implements prometheus.Collector.
func (c certificates) Collect(out chan<- prometheus.Metric) {
	for _, e := range c.watch.Expiries() {
		if !e.End.IsZero() {
			certificateExpires.sendValue(out, float64(e.End.Unix()), e.Use)
		}
	}
}
