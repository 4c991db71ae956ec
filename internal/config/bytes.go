package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Bytes is a size in bytes. In text it is a number of bytes, or a number with a unit: 8MiB.
type Bytes int64

// unitsOfSize are the units of sizes.
var unitsOfSize = []struct {
	name string
	of   int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// sizePattern matches a size with a unit.
const sizePattern = "^(0|[1-9][0-9]*) ?(TiB|GiB|MiB|KiB|TB|GB|MB|kB|B)$"

var sized = regexp.MustCompile("^([0-9]+) ?([A-Za-z]+)$")

// ParseBytes parses a size. Without a unit any whole number is parsed, so that the error of a
// negative size names the minimum.
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
	return 0, fmt.Errorf("unknown unit, or too large: %q", s)
}
