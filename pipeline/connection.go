package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// connection is a connection of a run, and its last known condition. The client itself
// would block during a dial: up to natsclient's 10 s, repeatedly, if the server's
// machine is gone.
type connection struct {
	*nats.Conn
	up     atomic.Bool
	breaks atomic.Uint64 // disconnections, counted at least once for several in quick succession
}

// watchConnection follows a connection until its final close.
func watchConnection(nc *nats.Conn) *connection {
	c := &connection{Conn: nc}
	changes := nc.StatusChanged()
	c.up.Store(nc.IsConnected())
	go func() {
		for s := range changes {
			if s != nats.CONNECTED {
				c.breaks.Add(1)
				c.up.Store(false)
			}
			c.up.Store(nc.IsConnected()) // read the current value: changes in quick succession may be lost
			if nc.IsClosed() {
				return
			}
		}
	}()
	return c
}

// connections are a run's connections, and their assignment to consumers.
type connections struct {
	open func(name string) (*nats.Conn, error)
	job  string

	mu  sync.Mutex // never held during a wait
	all []*connection

	readersMu     sync.Mutex
	readers       []jetstream.JetStream // the last connection is for the common consumer
	perConnection int                   // consumers per connection
}

// dialAnother opens one more connection; close closes it.
func (d *connections) dialAnother(what string) (*nats.Conn, error) {
	nc, err := d.open("eusn-stream/" + d.job + "/" + what)
	if err != nil {
		return nil, err
	}
	c := watchConnection(nc)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, c)
	return nc, nil
}

// closeAll closes all connections.
func (d *connections) closeAll() {
	for _, nc := range d.all {
		nc.Close()
	}
}

// allConnected reports whether every connection is up.
func (d *connections) allConnected() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !slices.ContainsFunc(d.all, func(c *connection) bool { return !c.up.Load() })
}

// countBreaks counts how often connections were not up.
func (d *connections) countBreaks() (n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.all {
		n += c.breaks.Load()
	}
	return n
}

// errClosed reports a connection that the client has closed permanently, after the
// server reported a violation of its protocol or limits. An unavailable server is a
// different case: the client waits for it.
var errClosed = errors.New("the NATS connection was closed for good")

// closedError reports whether a connection was closed by the client: all further requests on
// it fail.
func (d *connections) closedError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, nc := range d.all {
		if nc.IsClosed() {
			return fmt.Errorf("pipeline: %w: %s: %v", errClosed, nc.Opts.Name, nc.LastError())
		}
	}
	return nil
}

// shareReaders prepares connections for the consumers of the given partitions, with messages
// up to maxMessage bytes, and returns how many bytes one consumer may request at a
// time.
func (d *connections) shareReaders(partitions, maxMessage int) (pull int) {
	pull, d.perConnection = owner.PullBytes(partitions, maxMessage)
	d.readers = make([]jetstream.JetStream, (partitions+d.perConnection-1)/d.perConnection+1)
	return pull
}

// readerOf returns the connection for a partition's consumer: as many consumers share a
// connection as its limit of pending bytes allows.
func (d *connections) readerOf(part int) (jetstream.JetStream, error) {
	return d.inputReader(part / d.perConnection)
}

// commonReader returns the connection of the common consumer.
func (d *connections) commonReader() (jetstream.JetStream, error) {
	return d.inputReader(len(d.readers) - 1)
}

func (d *connections) inputReader(i int) (jetstream.JetStream, error) {
	d.readersMu.Lock()
	defer d.readersMu.Unlock()
	if d.readers[i] != nil {
		return d.readers[i], nil
	}
	nc, err := d.dialAnother("input")
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("pipeline: JetStream: %w", err)
	}
	d.readers[i] = js
	return js, nil
}
