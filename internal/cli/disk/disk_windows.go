package disk

import "golang.org/x/sys/windows"

// diskFree is what this user may still write on a directory's disk.
func diskFree(dir string) (bytes uint64, ok bool) {
	at, err := windows.UTF16PtrFromString(dir)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(at, &bytes, nil, nil)
	}
	return bytes, err == nil
}
