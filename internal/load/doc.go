// Package load produces the load of a measured stage, and measures the predictions: messages of
// random samples from many numbered producers, in a burst or at a steady pace.
//
// # Files
//
//   - load.go: publishes drawn samples as numbered producers
//   - arrivals.go: pairs predictions with due times and computes latencies
//   - cpu_unix.go, cpu_other.go: read the CPU time of the process
package load
