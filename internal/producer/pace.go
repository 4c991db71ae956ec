package producer

import "time"

// pace decides when samples are due. Samples with times keep the recording's time line,
// shared by all streams and run at speed; samples without times get a time line from a
// nominal rate, which begins with each item.
type pace struct {
	speed  float64 // 0 = everything is due at once
	rate   float64 // samples per second of an item without times
	begin  time.Time
	origin int64 // recorded time that plays at begin
	set    bool
}

// clock is an item's position on the time line.
type clock struct {
	begin  time.Time
	origin int64
}

// timeItem starts an item at now. The time of the first sample, if known, positions the
// item; after is the end of the stream's previous item.
func (p *pace) timeItem(now, after time.Time, times []int64, last int64) clock {
	if len(times) == 0 {
		if now.Before(after) {
			now = after
		}
		return clock{begin: now}
	}
	if !p.set {
		p.begin, p.origin, p.set = now, times[0], true
	}
	if times[0] <= last {
		// The stream's time line restarts, as in data sets in which every series begins
		// at 0.
		return clock{begin: now, origin: times[0]}
	}
	return clock{begin: p.begin, origin: p.origin}
}

// dueTime returns the earliest send time of a message with the n-th sample of the item,
// taken at t (ns), as the last sample: the sample must exist.
func (p *pace) dueTime(c clock, n int, t int64, timed bool) time.Time {
	switch {
	case p.speed <= 0:
		return time.Time{}
	case timed:
		return c.begin.Add(time.Duration(float64(t-c.origin) / p.speed))
	}
	return c.begin.Add(time.Duration(float64(n) / (p.rate * p.speed) * float64(time.Second)))
}

// skipPause moves an item's clock so that an already stored message is due now, and
// returns the due time: stored messages cause no wait. The shared time line moves, too,
// because the streams were stopped together.
func (p *pace) skipPause(c *clock, due, now time.Time) time.Time {
	ahead := due.Sub(now)
	if due.IsZero() || ahead <= 0 {
		return due
	}
	if p.set && c.begin.Equal(p.begin) && c.origin == p.origin {
		p.begin = p.begin.Add(-ahead)
	}
	c.begin = c.begin.Add(-ahead)
	return now
}
