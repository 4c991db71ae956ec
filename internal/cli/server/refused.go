package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
)

// heeding is the context of a command, which also ends, with the refusal as its
// error, when the server says that the login lacks a right. The server says it
// beside the question, which has no answer then: without this, the command would
// wait for one until its deadline.
type heeding struct {
	context.Context
	stop func() bool // listening to the command's own context
	done chan struct{}

	mu  sync.Mutex
	err error
}

// Heed makes the commands' context, before the first connection. A worker has none:
// it lives on while somebody changes its rights.
func (b *Broker) Heed(ctx context.Context) context.Context {
	b.heeds = &heeding{Context: ctx, done: make(chan struct{})}
	if err := ctx.Err(); err != nil { // AfterFunc would say so a moment later
		b.heeds.end(err)
	}
	b.heeds.stop = context.AfterFunc(ctx, func() { b.heeds.end(ctx.Err()) })
	return b.heeds
}

// listen hears what the server refuses on a connection, and leaves the log as it is.
func (h *heeding) listen(nc *nats.Conn) {
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) && !natsclient.RefusedAnswer(nc, err) {
			h.end(err)
		}
		if before != nil {
			before(nc, sub, err)
		}
	})
}

func (h *heeding) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
		close(h.done)
	}
}

func (h *heeding) Done() <-chan struct{} { return h.done }

func (h *heeding) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Lacking gives the error of a command its cause where that is a right that the login
// lacks. A command that only ends with its context has no error then.
func (b *Broker) Lacking(err error) error {
	var known *cli.Failure
	if b.heeds == nil || errors.As(err, &known) {
		return err
	}
	refusal := b.heeds.Err()
	switch {
	case !errors.Is(refusal, nats.ErrPermissionViolation):
		return err
	case err == nil, errors.Is(err, nats.ErrPermissionViolation):
		err = fmt.Errorf("this login may not do that: %w", cmp.Or(err, refusal))
	default:
		err = fmt.Errorf("%w: this login may not do that: %w", err, refusal)
	}
	return cli.Fail(cli.ExitFailure, err,
		"the same command with the login of an operator (docs/secure.md): set -a; . eusn-secure/operator.env; on your own server allow it what docs/nats.md lists")
}
