// Package disk says how a job fills its server's disk: what "run" logs about it, and
// what "doctor" finds.
//
// # Files
//
//   - disk.go: measures the growth of a job and warns before its disk is full
//   - disk_unix.go, disk_windows.go, disk_other.go: read the free space of a disk
package disk
