package natsclient

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Each passes the messages of a consumer to fn, one at a time, until fn returns an error,
// ctx ends (context.Cause) or the connection is closed permanently. After the return of
// Each, fn has ended, if within patience. Each does not wait for the client; see
// StopConsumer.
func Each(ctx context.Context, cons jetstream.Consumer, patience time.Duration, fn func(jetstream.Msg) error, opts ...jetstream.PullConsumeOpt) error {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	running := make(chan struct{}, 1)
	cc, err := cons.Consume(func(m jetstream.Msg) {
		select {
		case running <- struct{}{}:
		case <-inner.Done():
			return
		}
		defer func() { <-running }()
		if inner.Err() != nil {
			return
		}
		if err := fn(m); err != nil {
			stop(err)
		}
	}, opts...)
	if err != nil {
		return err
	}
	closed := cc.Closed()
	defer func() {
		stop(nil)
		go cc.Stop()
		select {
		case running <- struct{}{}:
		case <-time.After(patience):
		}
	}()
	select {
	case <-closed:
		return nats.ErrConnectionClosed
	case <-inner.Done():
		return context.Cause(inner)
	}
}

// StopConsumer ends a consumer and waits for the callback, at most for patience. While
// the server is unavailable the client may hold its consumer's lock for many seconds
// (nats.go 1.55.0 requests a new consumer under the lock), which blocks Stop; the
// following end of the connection ends both.
func StopConsumer(cc jetstream.ConsumeContext, patience time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cc.Stop()
		<-cc.Closed()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
	}
}
