// Package traces sends spans to a collector of OpenTelemetry, with OpenTelemetry's SDK and by OTLP
// over HTTP. It is the only package that uses the SDK; other packages use package internal/trace.
//
// Spans arrive finished, with their own times and contexts, and wait in a bounded queue of the SDK.
// No message waits for the collector: if the queue is full, or the last attempt fails, spans are
// dropped and counted.
//
// The SDK's HTTP exporter is not used, because it adds gRPC and its gateway to the program without
// a use. Its conversion of spans to OTLP needs neither, and the rest is one POST (client.go).
//
// # Files
//
//   - traces.go: selects messages and records their spans
//   - client.go: posts spans to a collector (OTLP over HTTP)
//   - gate.go: bounds the queue of spans and counts dropped spans
package traces
