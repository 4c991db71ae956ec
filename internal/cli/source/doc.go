// Package source plays archives as live data for "replay" and "demo", and stores live data as
// archives for "record".
//
// # Files
//
//   - source.go: plays archives as live data
//   - record_files.go: writes and reads the files of recordings
package source
