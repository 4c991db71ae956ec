package gateway

import (
	"log/slog"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/names"
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

// mostLogged characters of a cause are logged: devices choose what it quotes.
const mostLogged = 1000

// logComplaint logs a text with its newest cause and the place that it came from.
func (c *complaints) logComplaint(text, place string, err error) {
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
		c.log.Warn(text, "from", names.Cut(place, mostLogged), "times", one.since, "err", names.Cut(err.Error(), mostLogged))
		one.logged, one.since = now, 0
	}
}
