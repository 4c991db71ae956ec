package alarm

import (
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// judgeAccepted changes the result of the condition for an accepted level, and updates the level.
func (c *counter) judgeAccepted(r *Rule, p *codec.Prediction, on, off bool, now time.Time) (bool, bool) {
	if on && c.Alarm > 0 && isFinite(p.Novelty) {
		c.Peak = max(c.Peak, p.Novelty)
	}
	if c.Accepted == 0 {
		return on, off
	}
	switch {
	case on:
		c.UsualSince = time.Time{}
	case off && c.UsualSince.IsZero():
		c.UsualSince = now
	case off && now.Sub(c.UsualSince) >= r.Accept:
		c.Accepted, c.UsualSince = 0, time.Time{}
	}
	if on && p.Novelty <= c.Accepted {
		return false, true
	}
	return on, off
}

// isWorse reports whether the last prediction, of an active alarm, raises a new alarm.
func (c *counter) isWorse(r *Rule, p *codec.Prediction, now time.Time) bool {
	return r.Worse > 0 && c.Last&1 > 0 && c.Novelty > 0 && isFinite(p.Novelty) && p.Novelty >= r.Worse*c.Novelty && !r.isQuiet(now)
}

// shouldAccept reports whether the level of an active alarm is accepted.
func (c *counter) shouldAccept(r *Rule, now time.Time) bool {
	return r.Accept > 0 && c.Peak > 0 && now.Sub(c.RaisedAt) >= max(r.Accept, r.Hold)
}
