package traces

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

const (
	mostWaiting = 8192            // spans in the queue: some MB
	atOnce      = 512             // spans per request
	sendEvery   = 2 * time.Second // interval of smaller requests
	sendTime    = 30 * time.Second
)

// Options configure the collector and the selection of messages.
type Options struct {
	Endpoint    string      // of the collector
	OneIn       int         // one in this number of messages without a sender's decision is traced; 0 = none
	Rate        int         // maximum number of messages traced per second
	HeadersFile string      // headers for the collector; empty = none
	TLS         *tls.Config // to the collector; nil = the system's authorities, no client certificate
	Job         string
	Process     string // "stage" or "gateway"
	Version     string
	Log         *slog.Logger
}

// Traces is a Tracer that sends spans to a collector.
type Traces struct {
	oneIn    uint64
	limit    rateLimit
	provider *sdk.TracerProvider
	tracer   otel.Tracer
	gate     *gate
}

// Start returns a running Traces. It does not contact the collector yet.
func Start(o Options) (*Traces, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	exporter := otlptrace.NewUnstarted(c)
	t := &Traces{oneIn: uint64(max(0, o.OneIn)), limit: rateLimit{rate: o.Rate}}
	t.gate = &gate{log: o.Log, endpoint: c.shown}
	t.gate.next = sdk.NewBatchSpanProcessor(countingExporter{exporter, t.gate},
		sdk.WithMaxQueueSize(mostWaiting), sdk.WithMaxExportBatchSize(atOnce), sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendTime))
	t.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(t.gate), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(idGenerator{}), sdk.WithResource(newResource(o)))
	t.tracer = t.provider.Tracer("github.com/eusn-stream/eusn-stream", otel.WithInstrumentationVersion(o.Version))
	return t, nil
}

// newResource returns the process's attributes for spans. OTEL_RESOURCE_ATTRIBUTES and
// OTEL_SERVICE_NAME of the environment have priority, as usual.
func newResource(o Options) *resource.Resource {
	host, _ := os.Hostname()
	ours := resource.NewSchemaless(
		attribute.String("service.name", "eusn-stream"), attribute.String("service.namespace", o.Job),
		attribute.String("service.version", o.Version), attribute.String("eusn.process", o.Process),
		attribute.String("host.name", host), attribute.Int("process.pid", os.Getpid()))
	env, err := resource.New(context.Background(), resource.WithFromEnv())
	if err != nil {
		return ours
	}
	all, err := resource.Merge(ours, env)
	if err != nil {
		return ours
	}
	return all
}

// Takes selects messages: by the sender's decision, or otherwise by chance, and limited to the rate
// per second.
func (t *Traces) Takes(parent trace.Context) bool {
	switch {
	case parent.Valid():
		if !parent.Sampled() {
			return false
		}
	case t.oneIn == 0 || t.oneIn > 1 && rand.Uint64N(t.oneIn) != 0:
		return false
	}
	return t.limit.allowsMessage(time.Now())
}

// rateLimit limits the number of traced messages per second.
type rateLimit struct {
	rate    int
	mu      sync.Mutex
	since   time.Time
	taken   int
	refused atomic.Uint64
}

func (l *rateLimit) allowsMessage(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= time.Second {
		l.since, l.taken = now, 0
	}
	if l.taken >= l.rate {
		l.refused.Add(1)
		return false
	}
	l.taken++
	return true
}

// Record sends finished spans. It does not block.
func (t *Traces) Record(spans ...*trace.Span) {
	for _, s := range spans {
		t.recordSpan(s)
	}
}

func (t *Traces) recordSpan(s *trace.Span) {
	ctx := context.WithValue(context.Background(), contextKey{}, &s.Context)
	if s.Parent.Valid() {
		ctx = otel.ContextWithRemoteSpanContext(ctx, contextOf(&s.Parent))
	}
	attributes := make([]attribute.KeyValue, len(s.Attributes))
	for i, a := range s.Attributes {
		if attributes[i] = attribute.Int64(a.Key, a.Number); a.Text != "" {
			attributes[i] = attribute.String(a.Key, cleanText(a.Text))
		}
	}
	links := make([]otel.Link, len(s.Links))
	for i := range s.Links {
		links[i].SpanContext = contextOf(&s.Links[i])
	}
	_, span := t.tracer.Start(ctx, s.Name, otel.WithTimestamp(s.Begin), otel.WithSpanKind(kinds[s.Kind]), otel.WithAttributes(attributes...), otel.WithLinks(links...))
	if s.Error != "" {
		span.SetStatus(codes.Error, cleanText(s.Error))
	}
	end := s.End
	if end.Before(s.Begin) {
		end = s.Begin
	}
	span.End(otel.WithTimestamp(end))
}

var kinds = [...]otel.SpanKind{trace.Internal: otel.SpanKindInternal, trace.Producer: otel.SpanKindProducer, trace.Consumer: otel.SpanKindConsumer}

// contextOf converts a context for the SDK. It drops a tracestate that the SDK cannot parse.
func contextOf(c *trace.Context) otel.SpanContext {
	state, err := otel.ParseTraceState(c.State)
	if err != nil {
		state = otel.TraceState{}
	}
	return otel.NewSpanContext(otel.SpanContextConfig{TraceID: c.Trace, SpanID: c.Span, TraceFlags: otel.TraceFlags(c.Flags), TraceState: state, Remote: true})
}

// idGenerator gives spans their existing IDs.
type idGenerator struct{}

type contextKey struct{}

// NewIDs returns the IDs of a span without a parent.
func (idGenerator) NewIDs(ctx context.Context) (otel.TraceID, otel.SpanID) {
	c := ctx.Value(contextKey{}).(*trace.Context)
	return c.Trace, c.Span
}

// NewSpanID returns the ID of a span with a parent.
func (idGenerator) NewSpanID(ctx context.Context, _ otel.TraceID) otel.SpanID {
	return ctx.Value(contextKey{}).(*trace.Context).Span
}

// Stats may be called at any time.
func (t *Traces) Stats() trace.Stats {
	return trace.Stats{Sent: t.gate.sent.Load(), Dropped: t.gate.dropped.Load(), Limited: t.limit.refused.Load()}
}

// Close sends the waiting spans until ctx ends, and stops.
func (t *Traces) Close(ctx context.Context) {
	t.gate.closing.Store(true)
	if t.provider.Shutdown(ctx) != nil { // the waiting spans are lost, because the process ends
		t.gate.dropped.Add(uint64(max(0, t.gate.waiting.Load())))
	}
}
