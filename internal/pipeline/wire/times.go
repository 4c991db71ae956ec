package wire

import (
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// oldest and farthest limit the times that a device with a clock sends, in ns: no
// device measured before 2000, or more than a day from the arrival of its samples,
// unless it has stored the samples.
const (
	oldest   = 946684800 * int64(time.Second)
	farthest = int64(24 * time.Hour)
)

// CountFarTimes counts times (ns since 1970) before 2000, or more than a day from the
// clock, and returns the first: a wrong unit gives times in 1970 or in future
// centuries. clock is the arrival of the samples, in ns since 1970.
func CountFarTimes(times []int64, clock int64) (n int, first int64) {
	for _, t := range times {
		if t == codec.NoTime || t >= oldest && isNear(t, clock) {
			continue
		}
		if n == 0 {
			first = t
		}
		n++
	}
	return n, first
}

// isNear reports whether a time is within a day of the clock.
func isNear(t, clock int64) bool {
	d := t - clock
	return d >= -farthest && d <= farthest
}

// DescribeFarTime formats a time, with the factor by which its unit is too short if a
// longer unit gives a time near the clock. With a unit that is too long, a time
// overflows nanoseconds, and is refused.
func DescribeFarTime(t, clock int64) string {
	text := time.Unix(0, t).UTC().Format(time.RFC3339)
	for _, factor := range []int64{1e3, 1e6, 1e9} {
		if p := t * factor; p/factor == t && isNear(p, clock) {
			return fmt.Sprintf("%s: with a unit that is %d times as long it is of today", text, factor)
		}
	}
	return text
}
