//go:build !unix

package listen

// OpenFiles is how many files the process may have open. ok is false where there is no
// limit.
func OpenFiles() (limit int, ok bool) { return 0, false }
