// Package disk reports the growth of a job's disk use, in the log of "run" and in "doctor", and
// limits it.
//
// # Files
//
//   - disk.go: measures the growth of a job and warns before its disk is full
//   - limit.go: deletes the oldest messages of a job beyond the limits of its disk use
//   - disk_unix.go, disk_windows.go, disk_other.go: read the free space of a disk
package disk
