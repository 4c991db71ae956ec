package pipeline

import (
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// connection is one of a run's, and whether it is up. Asked directly, the
// client waits for a dial under way: up to connectWait, again and again, where
// the server's machine is gone.
type connection struct {
	*nats.Conn
	up atomic.Bool
}

// watched follows a connection until it is closed for good.
func watched(nc *nats.Conn) *connection {
	c := &connection{Conn: nc}
	changes := nc.StatusChanged()
	c.up.Store(nc.IsConnected())
	go func() {
		for s := range changes {
			if s != nats.CONNECTED {
				c.up.Store(false)
			}
			c.up.Store(nc.IsConnected()) // when it is known: changes in quick succession may be lost
			if nc.IsClosed() {
				return
			}
		}
	}()
	return c
}
