//go:build !unix

package listen

// OpenFiles returns the limit of open files of the process; ok is false without a limit.
func OpenFiles() (limit int, ok bool) { return 0, false }
