package producer

import "time"

// pace says when samples are due. Samples with times keep the recording's own
// time line, shared by all streams and run at speed; samples without get one
// from a nominal rate, which begins with each item.
type pace struct {
	speed  float64 // 0 = everything is due at once
	rate   float64 // samples per second of an item without times
	begin  time.Time
	origin int64 // recorded time that plays at begin
	set    bool
}

// clock is one item's place on the time line.
type clock struct {
	begin  time.Time
	origin int64
}

// item starts an item at now. Its first sample's time counts, if it has one;
// after is when the stream's item before was over.
func (p *pace) item(now, after time.Time, times []int64, last int64) clock {
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
		// The stream's time line starts again, as where every series of a
		// data set begins at 0.
		return clock{begin: now, origin: times[0]}
	}
	return clock{begin: p.begin, origin: p.origin}
}

// due is when a message may go out whose last sample is the n-th of its item
// and was taken at t (ns): not before that sample could have been there.
func (p *pace) due(c clock, n int, t int64, timed bool) time.Time {
	switch {
	case p.speed <= 0:
		return time.Time{}
	case timed:
		return c.begin.Add(time.Duration(float64(t-c.origin) / p.speed))
	}
	return c.begin.Add(time.Duration(float64(n) / (p.rate * p.speed) * float64(time.Second)))
}

// skip moves an item's clock so that a message that was stored before is due now,
// and says when it is: nobody waits for what is there already. The shared time
// line moves, too, because the streams were stopped together.
func (p *pace) skip(c *clock, due, now time.Time) time.Time {
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
