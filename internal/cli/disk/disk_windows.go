package disk

import "golang.org/x/sys/windows"

// diskFree is what this user may still write on a directory's disk, and of how many bytes.
func diskFree(dir string) (bytes, of uint64, ok bool) {
	at, err := windows.UTF16PtrFromString(dir)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(at, &bytes, &of, nil)
	}
	return bytes, of, err == nil
}
