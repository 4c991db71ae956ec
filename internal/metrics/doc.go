// Package metrics shows a running stage to Prometheus and to an orchestrator,
// over HTTP: /metrics, /healthz and /readyz.
//
// It owns the names, labels and units of what is exported (docs/metrics.md
// lists them, a test compares) and the HTTP server with its limits, its TLS and
// its logins (Access: whatever the server shows is behind them). It counts
// nothing itself: each scrape reads pipeline.Counters, which the stage writes
// whether anybody looks or not, and the GPUs' readings of package
// gpu/telemetry. So the stage knows nothing of Prometheus, and a client of
// this server can hold up no batch.
package metrics
