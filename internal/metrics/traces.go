package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// The metrics of traces, of a stage and of a gateway that have any.
var (
	tracesSent    = define(counter, "eusn_traces_sent_total", "Spans that the collector of traces has taken.")
	tracesDropped = define(counter, "eusn_traces_dropped_total", "Spans that were dropped: no room, or the collector did not take them.")
	tracesLimited = define(counter, "eusn_traces_limited_total", "Messages that were not traced, because more were in a second than traces.rate.")
)

type tracesCollector struct{ stats func() trace.Stats }

func (tracesCollector) metrics() []*metric {
	return []*metric{tracesSent, tracesDropped, tracesLimited}
}

// Describe implements prometheus.Collector.
func (c tracesCollector) Describe(out chan<- *prometheus.Desc) { describe(out, c.metrics()) }

// Collect implements prometheus.Collector.
func (c tracesCollector) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	tracesSent.send(out, float64(s.Sent))
	tracesDropped.send(out, float64(s.Dropped))
	tracesLimited.send(out, float64(s.Limited))
}
