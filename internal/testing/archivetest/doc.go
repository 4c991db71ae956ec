// Package archivetest helps tests of archives and their readers: it writes Parquet files
// as other tools write them, and files to import.
//
// # Files
//
//   - foreign.go: writes Parquet files as other tools do, and other files for a test
package archivetest
