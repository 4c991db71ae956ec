//go:build linux || darwin

package disk

import (
	"syscall"
)

// diskFree is what ordinary users may still write on a directory's disk, and of how many bytes.
func diskFree(dir string) (bytes, of uint64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, false
	}
	used := (st.Blocks - st.Bfree) * uint64(st.Bsize) // what is kept for root counts for nobody
	bytes = st.Bavail * uint64(st.Bsize)
	return bytes, used + bytes, true
}
