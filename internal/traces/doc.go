// Package traces sends spans to a collector of OpenTelemetry: by its SDK, and by OTLP
// over HTTP. It is the only package that knows the SDK; all others know package
// internal/trace.
//
// Spans come when they have ended, with times and places of their own, and wait in a
// bounded queue of the SDK. Nothing waits for the collector: where the queue is full, or
// an attempt fails that no other may follow, spans are dropped and counted.
//
// The SDK's own exporter over HTTP is not used, because it brings gRPC and its gateway
// into the program, which nothing here calls. Its part that makes OTLP of spans has
// neither, and what is left is one POST (client.go).
//
// # Files
//
//   - traces.go: selects messages and records their spans
//   - client.go: posts spans to a collector (OTLP over HTTP)
//   - gate.go: bounds the queue of spans and counts dropped spans
package traces
