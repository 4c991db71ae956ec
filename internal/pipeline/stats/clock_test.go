package stats

import (
	"testing"
	"testing/synctest"
	"time"
)

// The activities add up to the elapsed time, also during an activity.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		c.TurnTo(Idle)
		if got := c.Read(); got != [3]time.Duration{} {
			t.Errorf("before the start: %v", got)
		}
		c.StartClock()
		time.Sleep(3 * time.Second)
		c.TurnTo(Idle)
		time.Sleep(5 * time.Second)
		if got := c.Read(); got != [3]time.Duration{Busy: 3 * time.Second, Idle: 5 * time.Second} {
			t.Errorf("while it is idle: %v", got)
		}
		c.TurnTo(Waiting)
		time.Sleep(7 * time.Second)
		c.TurnTo(Busy)
		time.Sleep(time.Second)
		if got := c.Read(); got != [3]time.Duration{Busy: 4 * time.Second, Waiting: 7 * time.Second, Idle: 5 * time.Second} {
			t.Errorf("at the end: %v", got)
		}
		if n := testing.AllocsPerRun(100, func() { c.TurnTo(Idle); c.TurnTo(Busy) }); n != 0 {
			t.Errorf("%v allocations a turn, want none", n)
		}
	})
}
