// Package listen limits the resources that clients of a listener can use before their login:
// the connections of a listener, the connections of one address, and the open files of all
// listeners of the process together.
//
// A process without a free file for a connection has none for its store either, so the sum of
// the limits must be below the system's limit (CheckFiles).
//
// # Files
//
//   - limit.go: limits the connections of a listener
//   - pace.go: ends messages that arrive too slowly
//   - places.go: limits the memory of large messages in transit
//   - files.go: checks the limit of open files
//   - files_unix.go, files_other.go: read the limit of open files
package listen
