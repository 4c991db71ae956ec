// Package listen limits what the clients of a listener may take before they log in:
// how many connections a listener has at a time, how many of them come from one
// address, and how many files all listeners of the process may have open together.
//
// A process that has no file left for a connection has none for its store either, so
// limits are chosen such that their sum is below the limit of the system (CheckFiles).
//
// # Files
//
//   - limit.go: limits the connections of a listener
//   - pace.go: ends messages that arrive too slowly
//   - places.go: limits the memory of large messages in transit
//   - files.go: checks the limit of open files
//   - files_unix.go, files_other.go: read the limit of open files
package listen
