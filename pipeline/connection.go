package pipeline

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// connection is one of a run's, and whether it is up. Asked directly, the
// client waits for a dial under way: up to natsclient's 10 s, again and again, where
// the server's machine is gone.
type connection struct {
	*nats.Conn
	up     atomic.Bool
	breaks atomic.Uint64 // times it was not, at least once for several in quick succession
}

// watched follows a connection until it is closed for good.
func watched(nc *nats.Conn) *connection {
	c := &connection{Conn: nc}
	changes := nc.StatusChanged()
	c.up.Store(nc.IsConnected())
	go func() {
		for s := range changes {
			if s != nats.CONNECTED {
				c.breaks.Add(1)
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

// dial opens one more connection of the run, which close ends.
func (r *run) dial(what string) (*nats.Conn, error) {
	nc, err := r.Dial("eusn-stream/" + r.cfg.Job + "/" + what)
	if err != nil {
		return nil, err
	}
	c := watched(nc)
	r.connsMu.Lock()
	defer r.connsMu.Unlock()
	r.conns = append(r.conns, c)
	return nc, nil
}

// errClosed is a connection that the client has given up for good, which it
// does where the server says that a message breaks its protocol or its limits.
// A server that is away is something else: that is waited for.
var errClosed = errors.New("the NATS connection was closed for good")

// closed reports whether one of the run's connections was closed, not by the
// run: whatever is asked on it fails for ever.
func (r *run) closed() error {
	r.connsMu.Lock()
	defer r.connsMu.Unlock()
	for _, nc := range r.conns {
		if nc.IsClosed() {
			return fmt.Errorf("pipeline: %w: %s: %v", errClosed, nc.Opts.Name, nc.LastError())
		}
	}
	return nil
}

// reader is the connection a partition's consumer uses: as many consumers
// share one as its limit of pending bytes allows.
func (r *run) reader(part int) (jetstream.JetStream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := part / r.perConnection
	if r.readers[i] != nil {
		return r.readers[i], nil
	}
	nc, err := r.dial("input")
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("pipeline: JetStream: %w", err)
	}
	r.readers[i] = js
	return js, nil
}
