// Package stats counts the work of a running stage. All parts of a stage update one
// Counters, without a lock and without memory; package pipeline reads it
// (pipeline.Stats).
//
// # Files
//
//   - counters.go: defines the counters of a stage
//   - clock.go: measures the busy, waiting and idle time of a shard
//   - histogram.go: counts values in buckets
//   - shadows.go: counts the predictions of shadows
package stats
