//go:build linux || darwin

package disk

import (
	"syscall"
)

// diskFree returns the free space for ordinary users on a directory's disk, and the total.
func diskFree(dir string) (bytes, total uint64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, false
	}
	used := (st.Blocks - st.Bfree) * uint64(st.Bsize) // space reserved for root does not count
	bytes = st.Bavail * uint64(st.Bsize)
	return bytes, used + bytes, true
}
