package gateway

import (
	"log/slog"
	"sync"
	"time"
)

// complaints are lines in the log, each at most once a second, whatever the
// number of messages that cause it.
type complaints struct {
	log  *slog.Logger
	mu   sync.Mutex
	each map[string]*complaint // by their text
}

type complaint struct {
	logged time.Time
	since  int // causes that have had no line
}

// say logs a text with its newest cause and the place that it came from.
func (c *complaints) say(text, place string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.each == nil {
		c.each = map[string]*complaint{}
	}
	one := c.each[text]
	if one == nil {
		one = &complaint{}
		c.each[text] = one
	}
	one.since++
	if now := time.Now(); now.Sub(one.logged) >= time.Second {
		c.log.Warn(text, "from", place, "times", one.since, "err", err)
		one.logged, one.since = now, 0
	}
}
