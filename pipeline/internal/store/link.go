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
	Mu  sync.Mutex
	Up  context.Context // ends when the connection breaks
	Cut context.CancelFunc
}

// Follow watches a connection until it is closed for good.
func Follow(nc *nats.Conn) *Link {
	l := &Link{}
	l.Up, l.Cut = context.WithCancel(context.Background())
	changes := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		for s := range changes {
			l.Mu.Lock()
			l.Cut()
			if s != nats.CLOSED {
				l.Up, l.Cut = context.WithCancel(context.Background())
			}
			l.Mu.Unlock()
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
	l.Mu.Lock()
	up := l.Up
	l.Mu.Unlock()
	stop := context.AfterFunc(up, cancel)
	return ctx, func() { stop(); cancel() }
}
