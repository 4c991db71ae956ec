package gateway

import (
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// oldest and farthest bound the times that a device with a clock sends: it did not
// measure before 2000, nor more than a day from now, unless it has kept the samples.
const (
	oldest   = 946684800 * int64(time.Second)
	farthest = 24 * time.Hour
)

// farTimes counts times that are far from the clock, and says which is the first: a wrong
// unit gives times of 1970 or of centuries to come.
func farTimes(times []int64, now time.Time) (n int, why string) {
	for _, t := range times {
		if t == codec.NoTime || t >= oldest && nearBy(t, now) {
			continue
		}
		if n == 0 {
			why = time.Unix(0, t).UTC().Format(time.RFC3339) + meantUnit(t, now)
		}
		n++
	}
	return n, why
}

// nearBy reports whether a time is within a day of the clock.
func nearBy(t int64, now time.Time) bool {
	d := t - now.UnixNano()
	return d >= -int64(farthest) && d <= int64(farthest)
}

// meantUnit says by how much the unit is too short, if a longer one makes a time of
// today. With a shorter one the time does not fit into nanoseconds, and is refused.
func meantUnit(t int64, now time.Time) string {
	for _, factor := range []int64{1e3, 1e6, 1e9} {
		if p := t * factor; p/factor == t && nearBy(p, now) {
			return fmt.Sprintf(": with a unit that is %d times as long it is of today", factor)
		}
	}
	return ""
}
