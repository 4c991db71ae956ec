// Package load makes the load of a measured stage, and times what comes back:
// messages of drawn samples from many numbered producers, in a burst or at a
// steady pace, and the predictions that answer them.
//
// # Files
//
//   - load.go: publishes drawn samples as numbered producers
//   - arrivals.go: pairs predictions with due times and computes latencies
//   - cpu_unix.go, cpu_other.go: read the CPU time of the process
package load
