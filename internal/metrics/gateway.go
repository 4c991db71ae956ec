package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

// The metrics of a gateway; docs/metrics.md lists them.
var (
	gatewayMessages   = defineMetric(counter, "eusn_gateway_messages_total", "Messages taken from devices, repeats excluded.", "input")
	gatewayRefused    = defineMetric(counter, "eusn_gateway_refused_total", "Messages that were refused: they will never be taken.", "input")
	gatewayRepeats    = defineMetric(counter, "eusn_gateway_repeats_total", "Messages of devices that were taken before.")
	gatewayUnreadable = defineMetric(counter, "eusn_gateway_unreadable_total", "Payloads that could not be read, and were published as they are: dead letters of the stage.")
	gatewayDropped    = defineMetric(counter, "eusn_gateway_udp_dropped_total", "UDP packets, and messages of another broker with QoS 0, for which there was no room.")
	gatewayForgotten  = defineMetric(counter, "eusn_gateway_sessions_forgotten_total", "MQTT sessions that were forgotten because there were too many.")
	gatewayNew        = defineMetric(counter, "eusn_gateway_streams_new_total", "Streams of which the input had no message.")
	gatewayFarTimes   = defineMetric(counter, "eusn_gateway_far_times_total", "Samples whose time is before 2000, or more than a day from the clock.")
	gatewayMissed     = defineMetric(counter, "eusn_gateway_missed_total", "Samples that a poll of Modbus should have made and did not.")
	gatewaySamples    = defineMetric(counter, "eusn_gateway_samples_total", "Samples in the messages taken.")
	gatewayBatches    = defineMetric(counter, "eusn_gateway_batches_total", "Batches that were given a number.")
	gatewayRetries    = defineMetric(counter, "eusn_gateway_publish_retries_total", "Attempts to publish a batch that failed.")
	gatewayHeld       = defineMetric(gauge, "eusn_gateway_holding_back", "1 while no device is acknowledged.")
	gatewayWaiting    = defineMetric(gauge, "eusn_gateway_outbox_batches", "Batches in the outbox.")
	gatewayBytes      = defineMetric(gauge, "eusn_gateway_outbox_bytes", "Bytes of them.")
)

type gatewayCollector struct{ stats func() gateway.Stats }

func (gatewayCollector) metrics() []*metric {
	return []*metric{gatewayMessages, gatewayRefused, gatewayRepeats, gatewayUnreadable, gatewayDropped, gatewayMissed, gatewayForgotten, gatewayNew, gatewayFarTimes, gatewaySamples, gatewayBatches, gatewayRetries, gatewayHeld, gatewayWaiting, gatewayBytes}
}

// Describe implements prometheus.Collector.
func (c gatewayCollector) Describe(out chan<- *prometheus.Desc) { describeAll(out, c.metrics()) }

// Collect implements prometheus.Collector.
func (c gatewayCollector) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	for input, n := range s.Messages {
		gatewayMessages.sendValue(out, float64(n), input)
		gatewayRefused.sendValue(out, float64(s.Refused[input]), input)
	}
	gatewayRepeats.sendValue(out, float64(s.Repeats))
	gatewayUnreadable.sendValue(out, float64(s.Unreadable))
	gatewayDropped.sendValue(out, float64(s.Dropped))
	gatewayMissed.sendValue(out, float64(s.Missed))
	gatewayForgotten.sendValue(out, float64(s.Forgotten))
	gatewayNew.sendValue(out, float64(s.NewStreams))
	gatewayFarTimes.sendValue(out, float64(s.FarTimes))
	gatewaySamples.sendValue(out, float64(s.Samples))
	gatewayBatches.sendValue(out, float64(s.Batches))
	gatewayRetries.sendValue(out, float64(s.Retries))
	gatewayHeld.sendValue(out, boolValue(s.HoldingBack))
	gatewayWaiting.sendValue(out, float64(s.Waiting))
	gatewayBytes.sendValue(out, float64(s.OutboxBytes))
}
