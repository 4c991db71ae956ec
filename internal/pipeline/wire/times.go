package wire

import (
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// oldest and farthest bound the times that a device with a clock sends, in ns: it did not
// measure before 2000, nor more than a day from the time at which its samples arrive, unless
// it has kept the samples.
const (
	oldest   = 946684800 * int64(time.Second)
	farthest = int64(24 * time.Hour)
)

// CountFarTimes counts times (ns since 1970) that are before 2000, or more than a day from
// the clock, and returns the first of them: a wrong unit gives times of 1970 or of centuries
// to come. clock is when the samples arrived, in ns since 1970.
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

// DescribeFarTime returns a time as text, with the factor by which its unit is too short if a
// longer unit makes it a time near the clock. With a unit that is too long a time does not fit
// into nanoseconds, and is refused.
func DescribeFarTime(t, clock int64) string {
	text := time.Unix(0, t).UTC().Format(time.RFC3339)
	for _, factor := range []int64{1e3, 1e6, 1e9} {
		if p := t * factor; p/factor == t && isNear(p, clock) {
			return fmt.Sprintf("%s: with a unit that is %d times as long it is of today", text, factor)
		}
	}
	return text
}
