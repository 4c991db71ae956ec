package listen

import (
	"fmt"
	"time"
)

// Pace is how fast a message must come: the bytes, or the end of the message, within
// each period, and all of it within the whole time.
type Pace struct {
	Bytes       int
	Each, Whole time.Duration
}

// DefaultPace is that of whatever holds memory while it comes.
var DefaultPace = Pace{Bytes: 5 << 10, Each: 10 * time.Second, Whole: 30 * time.Second}

func (p Pace) String() string {
	return fmt.Sprintf("%d bytes in each %v, and all of it in %v", p.Bytes, p.Each, p.Whole)
}

// Coming is a message that must keep a pace.
type Coming struct {
	pace Pace
	end  time.Time
	came int
}

// Begin begins to measure a message. It must keep the first deadline.
func (p Pace) Begin(now time.Time) (c Coming, deadline time.Time) {
	c = Coming{pace: p, end: now.Add(p.Whole)}
	return c, c.next(now)
}

// Came notes bytes. If it has the next deadline, that is not zero.
func (c *Coming) Came(n int, now time.Time) (deadline time.Time) {
	if c.came += n; c.came < c.pace.Bytes {
		return time.Time{}
	}
	c.came = 0
	return c.next(now)
}

func (c *Coming) next(now time.Time) time.Time {
	if t := now.Add(c.pace.Each); t.Before(c.end) {
		return t
	}
	return c.end
}
