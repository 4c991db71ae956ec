// Package source plays archives as live data: what "replay" and "demo" publish; and
// keeps live data as archives: what "record" writes.
//
// # Files
//
//   - source.go: plays archives as live data
//   - record_files.go: writes and reads the files of recordings
package source
