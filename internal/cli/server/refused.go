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

// refusalContext is the context of a command. It also ends, with the refusal as its error, when
// the server reports that the login lacks a right. The server reports this apart from the
// request, which then gets no answer: without this context the command would wait until its
// deadline.
type refusalContext struct {
	context.Context
	stop  func() bool // stops listening to the command's own context
	ended chan struct{}

	mu  sync.Mutex
	err error
}

// EndOnRefusal makes the context of a command before the first connection. A worker has no such
// context: it continues after a change of its rights.
func (b *Broker) EndOnRefusal(ctx context.Context) context.Context {
	b.refusals = &refusalContext{Context: ctx, ended: make(chan struct{})}
	if err := ctx.Err(); err != nil { // AfterFunc would end the context a moment later
		b.refusals.endWith(err)
	}
	b.refusals.stop = context.AfterFunc(ctx, func() { b.refusals.endWith(ctx.Err()) })
	return b.refusals
}

// watchConnection ends the context at a refusal on a connection; logging is unchanged.
func (h *refusalContext) watchConnection(nc *nats.Conn) {
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) && !natsclient.RefusedAnswer(nc, err) {
			h.endWith(err)
		}
		if before != nil {
			before(nc, sub, err)
		}
	})
}

func (h *refusalContext) endWith(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
		close(h.ended)
	}
}

func (h *refusalContext) Done() <-chan struct{} { return h.ended }

func (h *refusalContext) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// ExplainRefusal adds the missing right to the error of a command. A command that ended with
// its context has no error yet.
func (b *Broker) ExplainRefusal(err error) error {
	var failure *cli.Failure
	if b.refusals == nil || errors.As(err, &failure) {
		return err
	}
	refusal := b.refusals.Err()
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
