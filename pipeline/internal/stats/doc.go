// Package stats counts what a running stage does. Everything that works for a
// stage adds to one Counters, without a lock and without memory; package pipeline
// reads it (pipeline.Stats).
package stats
