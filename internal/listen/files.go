package listen

import (
	"fmt"
	"strings"
)

// Need is how many files a part of the process has open at a time, at most. Each
// connection is a file.
type Need struct {
	What  string
	Files int
}

// CheckFiles refuses needs that are together more than the files that the process may
// have open.
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
	return fmt.Errorf("this process may have %d files open (RLIMIT_NOFILE), and needs up to %d: %s. Raise the limit: ulimit -Hn, or LimitNOFILE= in a unit of systemd", limit, sum, strings.Join(parts, ", "))
}

// leastShare is what a listener may have at least.
const leastShare = 64

// Share is how many connections a listener may have at a time: at most most, and at most one
// in parts of the files that the process may have open beyond its own.
func Share(most, own, parts int) int {
	limit, ok := OpenFiles()
	if !ok {
		return most
	}
	return share(limit, most, own, parts)
}

func share(limit, most, own, parts int) int {
	return max(leastShare, min(most, (limit-own)/parts))
}
