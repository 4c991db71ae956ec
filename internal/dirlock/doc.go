// Package dirlock reserves a directory or a file for one process, and makes the names in a
// directory survive a power failure.
//
// On Unix and Windows a lock belongs to an open file: the system releases the lock at any end
// of the process. On other systems the lock is a file created exclusively. After a kill the
// file remains, and the user must remove it; Remedy returns this advice.
//
// # Files
//
//   - dirlock.go: locks a path for one process
//   - dirlock_file.go: keeps the lock file open
//   - flock_unix.go, lock_windows.go: call the locks of the operating system
//   - dirlock_plain.go: creates a lock file on other systems
package dirlock
