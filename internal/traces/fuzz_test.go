package traces

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// FuzzContext: our parsing of the headers equals OpenTelemetry's, except for longer headers.
func FuzzContext(f *testing.F) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, s := range []string{"", parent, parent[:53] + "00", "cc" + parent[2:] + "-more", "ff" + parent[2:], parent + "-x", parent[:53] + "ff", "0" + parent} {
		f.Add(s, "a=1,b@c=2")
	}
	f.Add(parent, "a=1,a=2")
	f.Add(parent, "\x00")
	f.Fuzz(func(t *testing.T, parent, state string) {
		ours := trace.Of(map[string][]string{"traceparent": {parent}, "tracestate": {state}})
		theirs := otel.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent, "tracestate": state}))
		// Flags that version 00 does not define: OpenTelemetry refuses them, we ignore them, as the
		// recommendation requires.
		odd := len(parent) >= 55 && parent[53:55] > "01"
		if ours.Valid() && !theirs.IsValid() && odd {
			return
		}
		if ours.Valid() != theirs.IsValid() && len(parent) <= 256 {
			t.Fatalf("%q: ours %v, theirs %v", parent, ours.Parent(), theirs)
		}
		if !ours.Valid() {
			return
		}
		if otel.TraceID(ours.Trace) != theirs.TraceID() || otel.SpanID(ours.Span) != theirs.SpanID() || ours.Sampled() != theirs.IsSampled() {
			t.Fatalf("%q: ours %v, theirs %v", parent, ours.Parent(), theirs)
		}
		if c := contextOf(&ours); len(state) <= 512 && ours.State != "" && c.TraceState().String() != theirs.TraceState().String() {
			t.Fatalf("%q: ours %q, theirs %q", state, c.TraceState(), theirs.TraceState())
		}
		h := map[string][]string{}
		if ours.Put(h); trace.Of(h) != ours {
			t.Fatalf("%q with %q does not come back from its own headers", parent, state)
		}
	})
}
