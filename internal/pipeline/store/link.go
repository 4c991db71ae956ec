package store

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// Link follows a connection, so that a request to the server ends with the connection:
// the answer can no longer arrive. (The client cancels asynchronous publishes, but
// requests only after their timeout.)
type Link struct {
	mu  sync.Mutex
	up  context.Context // ends when the connection breaks
	cut context.CancelFunc
}

// Follow watches a connection until its final close.
func Follow(nc *nats.Conn) *Link {
	l := &Link{}
	l.up, l.cut = context.WithCancel(context.Background())
	changes := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		for s := range changes {
			l.mu.Lock()
			l.cut()
			if s != nats.CLOSED {
				l.up, l.cut = context.WithCancel(context.Background())
			}
			l.mu.Unlock()
			if s == nats.CLOSED {
				return
			}
		}
	}()
	return l
}

// Attempt returns the context of a request: the context ends after CommitTimeout, or
// when the connection breaks. A nil Link follows no connection.
func (l *Link) Attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	if l == nil {
		return ctx, cancel
	}
	up, stop := l.Connection(ctx)
	return up, func() { stop(); cancel() }
}

// Connection returns a context that ends when the connection breaks, for long
// operations on a connection, restarted on the next connection.
func (l *Link) Connection(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	stop := context.AfterFunc(up, cancel)
	return ctx, func() { stop(); cancel() }
}
