//go:build linux || darwin

package disk

import (
	"syscall"
)

// diskFree is what ordinary users may still write on a directory's disk.
func diskFree(dir string) (bytes uint64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}
