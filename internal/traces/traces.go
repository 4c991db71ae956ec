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
	mostWaiting = 8192            // spans on their way to the collector: some MB
	atOnce      = 512             // in a request
	sendEvery   = 2 * time.Second // where there are fewer
	sendTime    = 30 * time.Second
)

// Options say where spans go, and of how many messages.
type Options struct {
	Endpoint    string      // of the collector
	OneIn       int         // one in so many messages is traced that do not say it; 0 = none
	Rate        int         // most messages traced in a second
	HeadersFile string      // headers for the collector; empty = none
	TLS         *tls.Config // to the collector; nil = the system's authorities, no certificate of the client
	Job         string
	Process     string // what this one is: "stage" or "gateway"
	Version     string
	Log         *slog.Logger
}

// Traces is a Tracer that sends spans to a collector.
type Traces struct {
	oneIn    uint64
	limit    limit
	provider *sdk.TracerProvider
	tracer   otel.Tracer
	gate     *gate
}

// Start begins. It sends nothing yet, and does not look whether the collector is there.
func Start(o Options) (*Traces, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	exporter := otlptrace.NewUnstarted(c)
	t := &Traces{oneIn: uint64(max(0, o.OneIn)), limit: limit{rate: o.Rate}}
	t.gate = &gate{log: o.Log, endpoint: c.shown}
	t.gate.next = sdk.NewBatchSpanProcessor(counted{exporter, t.gate},
		sdk.WithMaxQueueSize(mostWaiting), sdk.WithMaxExportBatchSize(atOnce), sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendTime))
	t.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(t.gate), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(given{}), sdk.WithResource(whose(o)))
	t.tracer = t.provider.Tracer("github.com/eusn-stream/eusn-stream", otel.WithInstrumentationVersion(o.Version))
	return t, nil
}

// whose is what spans say of the process. OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME
// of the environment come first, as everywhere.
func whose(o Options) *resource.Resource {
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

// Takes decides on a message: as its sender has, or by chance where that has not; and
// never on more in a second than there may be.
func (t *Traces) Takes(parent trace.Context) bool {
	switch {
	case parent.Valid():
		if !parent.Sampled() {
			return false
		}
	case t.oneIn == 0 || t.oneIn > 1 && rand.Uint64N(t.oneIn) != 0:
		return false
	}
	return t.limit.takes(time.Now())
}

// limit is how many messages are traced in a second.
type limit struct {
	rate    int
	mu      sync.Mutex
	since   time.Time
	taken   int
	refused atomic.Uint64
}

func (l *limit) takes(now time.Time) bool {
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

// Record takes spans that have ended. It waits for nobody.
func (t *Traces) Record(spans ...*trace.Span) {
	for _, s := range spans {
		t.record(s)
	}
}

func (t *Traces) record(s *trace.Span) {
	ctx := context.WithValue(context.Background(), givenKey{}, &s.Context)
	if s.Parent.Valid() {
		ctx = otel.ContextWithRemoteSpanContext(ctx, contextOf(&s.Parent))
	}
	attributes := make([]attribute.KeyValue, len(s.Attributes))
	for i, a := range s.Attributes {
		if attributes[i] = attribute.Int64(a.Key, a.Number); a.Text != "" {
			attributes[i] = attribute.String(a.Key, clean(a.Text))
		}
	}
	links := make([]otel.Link, len(s.Links))
	for i := range s.Links {
		links[i].SpanContext = contextOf(&s.Links[i])
	}
	_, span := t.tracer.Start(ctx, s.Name, otel.WithTimestamp(s.Begin), otel.WithSpanKind(kinds[s.Kind]), otel.WithAttributes(attributes...), otel.WithLinks(links...))
	if s.Error != "" {
		span.SetStatus(codes.Error, clean(s.Error))
	}
	end := s.End
	if end.Before(s.Begin) {
		end = s.Begin
	}
	span.End(otel.WithTimestamp(end))
}

var kinds = [...]otel.SpanKind{trace.Internal: otel.SpanKindInternal, trace.Producer: otel.SpanKindProducer, trace.Consumer: otel.SpanKindConsumer}

// contextOf is a context as the SDK has it. A tracestate that it cannot read is left out.
func contextOf(c *trace.Context) otel.SpanContext {
	state, err := otel.ParseTraceState(c.State)
	if err != nil {
		state = otel.TraceState{}
	}
	return otel.NewSpanContext(otel.SpanContextConfig{TraceID: c.Trace, SpanID: c.Span, TraceFlags: otel.TraceFlags(c.Flags), TraceState: state, Remote: true})
}

// given has spans get the places that they have already.
type given struct{}

type givenKey struct{}

// NewIDs is for a span without a parent.
func (given) NewIDs(ctx context.Context) (otel.TraceID, otel.SpanID) {
	c := ctx.Value(givenKey{}).(*trace.Context)
	return c.Trace, c.Span
}

// NewSpanID is for one with a parent.
func (given) NewSpanID(ctx context.Context, _ otel.TraceID) otel.SpanID {
	return ctx.Value(givenKey{}).(*trace.Context).Span
}

// Stats may be called at any time.
func (t *Traces) Stats() trace.Stats {
	return trace.Stats{Sent: t.gate.sent.Load(), Dropped: t.gate.dropped.Load(), Limited: t.limit.refused.Load()}
}

// Close sends what waits, for as long as ctx lasts, and ends.
func (t *Traces) Close(ctx context.Context) {
	t.gate.closing.Store(true)
	if t.provider.Shutdown(ctx) != nil { // what waits is lost, and the process ends
		t.gate.dropped.Add(uint64(max(0, t.gate.waiting.Load())))
	}
}
