package listen

import (
	"fmt"
	"time"
)

// Pace is the minimum pace of a message: a number of bytes, or the end of the message, within
// each period, and the whole message within a total time.
type Pace struct {
	Bytes       int
	Each, Whole time.Duration
}

// DefaultPace is the pace of messages that occupy memory in transit.
var DefaultPace = Pace{Bytes: 5 << 10, Each: 10 * time.Second, Whole: 30 * time.Second}

func (p Pace) String() string {
	return fmt.Sprintf("%d bytes in each %v, and all of it in %v", p.Bytes, p.Each, p.Whole)
}

// Arrival is a message in transit with a minimum pace.
type Arrival struct {
	pace     Pace
	end      time.Time
	received int
}

// Start starts the measurement of a message, with its first deadline.
func (p Pace) Start(now time.Time) (c Arrival, deadline time.Time) {
	c = Arrival{pace: p, end: now.Add(p.Whole)}
	return c, c.nextDeadline(now)
}

// AddBytes counts bytes. If the period is complete, it returns the next deadline, otherwise
// zero.
func (c *Arrival) AddBytes(n int, now time.Time) (deadline time.Time) {
	if c.received += n; c.received < c.pace.Bytes {
		return time.Time{}
	}
	c.received = 0
	return c.nextDeadline(now)
}

func (c *Arrival) nextDeadline(now time.Time) time.Time {
	if t := now.Add(c.pace.Each); t.Before(c.end) {
		return t
	}
	return c.end
}
