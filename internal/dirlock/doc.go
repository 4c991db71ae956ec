// Package dirlock keeps a directory, or a file, for one process at a time, and
// makes the names in a directory survive a power failure.
//
// On Unix and Windows a lock belongs to an open file: the system releases it when the
// process ends, however it ends. Elsewhere it is a file that no other process can make.
// When the process is killed, that file stays, and a person has to remove it:
// Remedy says so.
//
// # Files
//
//   - dirlock.go: locks a path for one process
//   - dirlock_file.go: keeps the lock file open
//   - flock_unix.go, lock_windows.go: call the locks of the operating system
//   - dirlock_plain.go: creates a lock file on other systems
package dirlock
