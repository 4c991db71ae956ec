package traces

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// gate stands before the SDK's queue and counts: the SDK drops what finds no room in it
// without a word. Its figures are those of spans that have passed and have not come out.
type gate struct {
	next          sdk.SpanProcessor
	log           *slog.Logger
	endpoint      string
	waiting       atomic.Int64
	sent, dropped atomic.Uint64
	closing       atomic.Bool
	away          atomic.Bool // the collector did not take the last request
}

// OnStart implements sdk.SpanProcessor.
func (g *gate) OnStart(ctx context.Context, s sdk.ReadWriteSpan) { g.next.OnStart(ctx, s) }

// OnEnd lets a span in where there is room.
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

// came counts what became of a request, and says once that the collector is away, and
// once that it is back.
func (g *gate) came(spans int, err error) {
	g.waiting.Add(-int64(spans))
	if err == nil {
		g.sent.Add(uint64(spans))
		if g.away.Swap(false) {
			g.log.Info("the collector takes traces again", "endpoint", g.endpoint)
		}
		return
	}
	g.dropped.Add(uint64(spans))
	if !g.away.Swap(true) {
		g.log.Warn("the collector does not take traces: spans are dropped and counted (eusn_traces_dropped_total), everything else continues; check traces.endpoint, and the collector's log", "endpoint", g.endpoint, "err", err)
	}
}

// counted is an exporter whose requests the gate counts. It never fails: the SDK would
// write the error where nobody asked for it.
type counted struct {
	sdk.SpanExporter
	gate *gate
}

// ExportSpans implements sdk.SpanExporter.
func (c counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	c.gate.came(len(spans), c.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// clean is a text from outside as OTLP takes it.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
