// Package trace is what the stage, the gateway and clients know of traces: where in a
// trace a message stands (Context, by the W3C's trace context), and what a span is.
//
// It makes no spans and sends none: a Tracer does, which package internal/traces has.
// So nothing of OpenTelemetry is in the way of a message.
//
// docs/traces.md says which spans there are.
//
// # Files
//
//   - context.go: reads and writes the trace headers of messages (W3C)
//   - span.go: defines spans and the interface of a tracer
package trace
