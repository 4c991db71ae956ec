package timeunit

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Names are the units of numeric times since 1970.
var Names = []string{"s", "ms", "us", "ns"}

// Ticks returns the nanoseconds of a unit; 0: unknown unit.
func Ticks(unit string) int64 {
	return map[string]int64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}[unit]
}

// Nanoseconds converts n units to nanoseconds; false beyond 64 bits, and for the smallest
// number, which means no time.
func Nanoseconds(n, ticks int64) (int64, bool) {
	ok := n <= math.MaxInt64/ticks && n >= math.MinInt64/ticks && n*ticks != math.MinInt64
	return n * ticks, ok
}

// Guess returns the unit in which a number is a time of 1990 to 2106; "": no unit.
func Guess(n int64) string {
	const from, to = 631152000, 1 << 32 // s
	for _, unit := range Names {
		if second := 1e9 / Ticks(unit); n/second >= from && n/second < to {
			return unit
		}
	}
	return ""
}

// CheckTime refuses a time, such as the first of a recording, if the number is a time of
// 1990 to 2106 in another unit, but not in this unit. Times that begin with a small
// number, such as times since the start of a device, pass.
func CheckTime(n, ticks int64, what, remedy string) error {
	unit := Guess(n)
	if unit == "" || Ticks(unit) == ticks {
		return nil
	}
	return fmt.Errorf("%s %d, which looks like %s since 1970 (%s)%s", what, n, unit,
		time.Unix(n/(1e9/Ticks(unit)), 0).UTC().Format(time.RFC3339), remedy)
}

// Parse parses a time of a label: RFC 3339, or a number in ns since 1970. A time of 1990
// to 2106 in another unit is refused. what names the time in errors.
func Parse(what, text string) (int64, error) {
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ns, CheckTime(ns, 1, what+" is", ": want ns since 1970, or a time like 2026-01-31T12:00:00Z")
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, fmt.Errorf("%s %q, want a time like 2026-01-31T12:00:00Z, or ns since 1970", what, text)
	}
	if ns := t.UnixNano(); time.Unix(0, ns).Equal(t) {
		return ns, nil
	}
	return 0, fmt.Errorf("%s %q is beyond 64 bits of ns", what, text)
}
