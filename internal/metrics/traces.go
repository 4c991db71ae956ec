package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// The metrics of traces, for a stage and a gateway with traces.
var (
	tracesSent    = defineMetric(counter, "eusn_traces_sent_total", "Spans that the collector of traces has taken.")
	tracesDropped = defineMetric(counter, "eusn_traces_dropped_total", "Spans that were dropped: no room, or the collector did not take them.")
	tracesLimited = defineMetric(counter, "eusn_traces_limited_total", "Messages that were not traced, because more were in a second than traces.rate.")
)

type tracesCollector struct{ stats func() trace.Stats }

func (tracesCollector) metrics() []*metric {
	return []*metric{tracesSent, tracesDropped, tracesLimited}
}

// Describe implements prometheus.Collector.
func (c tracesCollector) Describe(out chan<- *prometheus.Desc) { describeAll(out, c.metrics()) }

// Collect implements prometheus.Collector.
func (c tracesCollector) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	tracesSent.sendValue(out, float64(s.Sent))
	tracesDropped.sendValue(out, float64(s.Dropped))
	tracesLimited.sendValue(out, float64(s.Limited))
}
