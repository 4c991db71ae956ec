package traces

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// gate precedes the SDK's queue and counts spans: the SDK drops spans silently if the queue is
// full. waiting is the number of accepted spans without a result.
type gate struct {
	next          sdk.SpanProcessor
	log           *slog.Logger
	endpoint      string
	waiting       atomic.Int64
	sent, dropped atomic.Uint64
	closing       atomic.Bool
	unreachable   atomic.Bool // the collector did not accept the last request
}

// OnStart implements sdk.SpanProcessor.
func (g *gate) OnStart(ctx context.Context, s sdk.ReadWriteSpan) { g.next.OnStart(ctx, s) }

// OnEnd accepts a span if the queue has room.
func (g *gate) OnEnd(s sdk.ReadOnlySpan) {
	if g.waiting.Add(1) > mostWaiting {
		g.waiting.Add(-1)
		g.dropped.Add(1)
		return
	}
	g.next.OnEnd(s)
}

// Shutdown implements sdk.SpanProcessor.
func (g *gate) Shutdown(ctx context.Context) error { return g.next.Shutdown(ctx) }

// ForceFlush implements sdk.SpanProcessor.
func (g *gate) ForceFlush(ctx context.Context) error { return g.next.ForceFlush(ctx) }

// recordResult counts the result of a request, and logs once that the collector is unreachable, and
// once that it is back.
func (g *gate) recordResult(spans int, err error) {
	g.waiting.Add(-int64(spans))
	if err == nil {
		g.sent.Add(uint64(spans))
		if g.unreachable.Swap(false) {
			g.log.Info("the collector accepts traces again", "endpoint", g.endpoint)
		}
		return
	}
	g.dropped.Add(uint64(spans))
	if !g.unreachable.Swap(true) {
		g.log.Warn("the collector does not accept traces: spans are dropped and counted (eusn_traces_dropped_total), everything else continues; check traces.endpoint, and the collector's log", "endpoint", g.endpoint, "err", err)
	}
}

// countingExporter is an exporter whose requests the gate counts. It never returns an error: the
// SDK would print the error outside the log.
type countingExporter struct {
	sdk.SpanExporter
	gate *gate
}

// ExportSpans implements sdk.SpanExporter.
func (c countingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	c.gate.recordResult(len(spans), c.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// cleanText returns a text as valid UTF-8, which OTLP requires.
func cleanText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
