package gateway

import (
	"log/slog"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// complaints limits log lines to one per second and kind, for any number of messages.
type complaints struct {
	log  *slog.Logger
	mu   sync.Mutex
	each map[string]*complaint // by their text
}

type complaint struct {
	logged time.Time
	since  int // causes without a line
}

// mostLogged limits the logged characters of a cause, which may quote device data.
const mostLogged = 1000

// logFirst logs a text with its first cause.
func (c *complaints) logFirst(text, place string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entry(text).since++; c.each[text].since == 1 {
		c.log.Info(text, "from", names.Cut(place, mostLogged), "first", names.Cut(errtext.For(err), mostLogged))
	}
}

// entry returns the complaint with a text. The caller holds mu.
func (c *complaints) entry(text string) *complaint {
	if c.each == nil {
		c.each = map[string]*complaint{}
	}
	if c.each[text] == nil {
		c.each[text] = &complaint{}
	}
	return c.each[text]
}

// logComplaint logs a text with the newest cause and the cause's origin.
func (c *complaints) logComplaint(text, place string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.entry(text)
	one.since++
	if now := time.Now(); now.Sub(one.logged) >= time.Second {
		c.log.Warn(text, "from", names.Cut(place, mostLogged), "times", one.since, "err", names.Cut(errtext.For(err), mostLogged))
		one.logged, one.since = now, 0
	}
}
