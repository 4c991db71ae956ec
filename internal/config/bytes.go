package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Bytes is a size. It is written as a number of bytes or with a unit: 8MiB.
type Bytes int64

// unitsOfSize are the units that a size may have.
var unitsOfSize = []struct {
	name string
	of   int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// sizePattern is a size with a unit.
const sizePattern = "^(0|[1-9][0-9]*) ?(TiB|GiB|MiB|KiB|TB|GB|MB|kB|B)$"

var sized = regexp.MustCompile("^([0-9]+) ?([A-Za-z]+)$")

// ParseBytes reads a size. Without a unit it may be any whole number, so that
// one below the minimum is refused as such.
func ParseBytes(s string) (Bytes, error) {
	if oddNumber.MatchString(s) {
		return 0, errOdd
	}
	m := sized.FindStringSubmatch(s)
	if m == nil {
		n, err := parseWhole(s, 64)
		return Bytes(n), err
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, err
	}
	for _, u := range unitsOfSize {
		if u.name == m[2] && n <= math.MaxInt64/u.of {
			return Bytes(n * u.of), nil
		}
	}
	return 0, fmt.Errorf("no unit of a size, or too large: %q", s)
}
