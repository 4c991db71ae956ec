// Package trace has the trace data shared by the stage, the gateway and clients: the context of a
// message in a trace (Context, by the W3C's trace context), and spans.
//
// The package neither creates nor sends spans: a Tracer does (package internal/traces). Messages
// thus do not depend on OpenTelemetry.
//
// docs/traces.md lists the spans.
//
// # Files
//
//   - context.go: reads and writes the trace headers of messages (W3C)
//   - span.go: defines spans and the interface of a tracer
package trace
