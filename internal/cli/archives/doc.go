// Package archives opens the data of a command line: data sets and recordings, or the only archive in a folder; tables and
// published data sets become temporary archives. Its errors name the next command.
//
// # Files
//
//   - archives.go: opens data sets and recordings
//   - tables.go: imports tables and published data sets into temporary archives
package archives
