package listen

import (
	"fmt"
	"strings"
)

// Need is the maximum number of open files of a part of the process. Each connection is a file.
type Need struct {
	What  string
	Files int
}

// CheckFiles refuses needs with a sum above the process's limit of open files.
func CheckFiles(needs ...Need) error {
	limit, ok := OpenFiles()
	if !ok {
		return nil
	}
	return compareFiles(limit, needs)
}

func compareFiles(limit int, needs []Need) error {
	sum, parts := 0, make([]string, len(needs))
	for i, n := range needs {
		sum += n.Files
		parts[i] = fmt.Sprintf("%d for %s", n.Files, n.What)
	}
	if sum <= limit {
		return nil
	}
	return fmt.Errorf("the limit of open files of this process is %d (RLIMIT_NOFILE), but it needs up to %d: %s. Raise the limit: ulimit -Hn, or LimitNOFILE= in a unit of systemd", limit, sum, strings.Join(parts, ", "))
}

// minShare is the minimum of a listener.
const minShare = 64

// Share returns the maximum number of connections of a listener: at most limit, and at most the
// given part of the open files that remain after the process's own files.
func Share(limit, ownFiles, parts int) int {
	files, ok := OpenFiles()
	if !ok {
		return limit
	}
	return shareOf(files, limit, ownFiles, parts)
}

func shareOf(files, limit, ownFiles, parts int) int {
	return max(minShare, min(limit, (files-ownFiles)/parts))
}
