package store

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// Link follows a connection, so that a question to the server ends with the
// connection it was sent on: its answer cannot come any more. (The client
// ends asynchronous publishes by itself, questions only by their time.)
type Link struct {
	mu  sync.Mutex
	up  context.Context // ends when the connection breaks
	cut context.CancelFunc
}

// Follow watches a connection until it is closed for good.
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

// Attempt is the context of one question: it ends after commitTimeout, or when
// the connection breaks. Nil follows no connection.
func (l *Link) Attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	if l == nil {
		return ctx, cancel
	}
	up, stop := l.Connection(ctx)
	return up, func() { stop(); cancel() }
}

// Connection is a context that ends when the connection breaks, for what takes long on one
// connection and begins anew on the next one.
func (l *Link) Connection(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	stop := context.AfterFunc(up, cancel)
	return ctx, func() { stop(); cancel() }
}
