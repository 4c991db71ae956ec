package disk

import "golang.org/x/sys/windows"

// diskFree returns the free space for this user on a directory's disk, and the total.
func diskFree(dir string) (bytes, of uint64, ok bool) {
	at, err := windows.UTF16PtrFromString(dir)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(at, &bytes, &of, nil)
	}
	return bytes, of, err == nil
}
