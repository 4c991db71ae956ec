package natsclient

import (
	"context"
	"errors"
	"fmt"
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

// errEnough ends EachStored.
var errEnough = errors.New("the last message was read")

// EachStored is Each for the messages that a consumer has at its creation, or until fn
// returns false. It returns an error if the next message does not come within wait.
func EachStored(ctx context.Context, cons jetstream.Consumer, wait time.Duration, fn func(jetstream.Msg, *jetstream.MsgMetadata) (more bool, err error)) error {
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(wait, func() { cancel(fmt.Errorf("no message within %v: %w", wait, context.DeadlineExceeded)) })
	defer late.Stop()
	err := Each(ctx, cons, wait, func(m jetstream.Msg) error {
		late.Stop()
		defer late.Reset(wait)
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		more, err := fn(m, meta)
		if err == nil && (!more || meta.NumPending == 0) {
			return errEnough
		}
		return err
	})
	if err == errEnough {
		return nil
	}
	return err
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
