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

// connections are a run's, and which of them consumers use.
type connections struct {
	open func(name string) (*nats.Conn, error)
	job  string

	mu  sync.Mutex // never held while something is waited for
	all []*connection

	readersMu     sync.Mutex
	readers       []jetstream.JetStream // the last one is for the common consumer
	perConnection int                   // consumers of each other
}

// dial opens one more connection, which close ends.
func (d *connections) dial(what string) (*nats.Conn, error) {
	nc, err := d.open("eusn-stream/" + d.job + "/" + what)
	if err != nil {
		return nil, err
	}
	c := watched(nc)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, c)
	return nc, nil
}

// close closes them all.
func (d *connections) close() {
	for _, nc := range d.all {
		nc.Close()
	}
}

// connected reports whether every connection is up.
func (d *connections) connected() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !slices.ContainsFunc(d.all, func(c *connection) bool { return !c.up.Load() })
}

// breaks counts how often connections were not up.
func (d *connections) breaks() (n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.all {
		n += c.breaks.Load()
	}
	return n
}

// errClosed is a connection that the client has given up for good, which it
// does where the server says that a message breaks its protocol or its limits.
// A server that is away is something else: that is waited for.
var errClosed = errors.New("the NATS connection was closed for good")

// closed reports whether one of the connections was closed, not by the run:
// whatever is asked on it fails for ever.
func (d *connections) closed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, nc := range d.all {
		if nc.IsClosed() {
			return fmt.Errorf("pipeline: %w: %s: %v", errClosed, nc.Opts.Name, nc.LastError())
		}
	}
	return nil
}

// share makes room for the consumers of so many partitions, each of which may
// ask for messages of a size, and returns how many bytes one may ask for at once.
func (d *connections) share(partitions, maxMessage int) (pull int) {
	pull, d.perConnection = owner.PullBytes(partitions, maxMessage)
	d.readers = make([]jetstream.JetStream, (partitions+d.perConnection-1)/d.perConnection+1)
	return pull
}

// reader is the connection a partition's consumer uses: as many consumers
// share one as its limit of pending bytes allows.
func (d *connections) reader(part int) (jetstream.JetStream, error) {
	return d.input(part / d.perConnection)
}

// common is the connection of the consumer that reads for all partitions.
func (d *connections) common() (jetstream.JetStream, error) { return d.input(len(d.readers) - 1) }

func (d *connections) input(i int) (jetstream.JetStream, error) {
	d.readersMu.Lock()
	defer d.readersMu.Unlock()
	if d.readers[i] != nil {
		return d.readers[i], nil
	}
	nc, err := d.dial("input")
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
