// Package metrics shows a running stage to Prometheus and to an orchestrator,
// over HTTP: /metrics, /healthz and /readyz.
//
// It owns the names, labels and units of what is exported (docs/metrics.md
// lists them, a test compares) and the HTTP server with its limits, its TLS and
// its logins (Access: whatever the server shows is behind them). It counts
// nothing itself: each scrape reads pipeline.Counters, which the stage writes
// whether anybody looks or not, and the GPUs' readings of package
// internal/telemetry. So the stage knows nothing of Prometheus, and a client of
// this server can hold up no batch.
//
// # Files
//
//   - server.go: serves metrics and health over HTTP
//   - access.go: checks logins, tokens and client certificates
//   - keys.go: reads the files of users and tokens, and rereads changed files
//   - metric.go: defines single metrics and histograms
//   - stage.go: collects the metrics of a stage
//   - gateway.go: collects the metrics of a gateway
//   - gpu.go: collects the metrics of GPUs
//   - traces.go: collects the metrics of traces
//   - certificates.go: collects the expiry times of certificates
package metrics
