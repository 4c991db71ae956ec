// Package metrics serves the state of a running stage to Prometheus and to an orchestrator, over
// HTTP: /metrics, /healthz and /readyz.
//
// The package defines the names, labels and units of the exported metrics (docs/metrics.md lists
// them, a test compares) and the HTTP server with its limits, its TLS and its logins (Access guards
// every path). It does not count: each scrape reads pipeline.Counters, which the stage always
// writes, and the GPU readings of package internal/telemetry. The stage thus does not depend on
// Prometheus, and a client of this server cannot delay a batch.
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
