package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience is longer than a cluster takes to choose a leader.
const patience = 2 * CommitTimeout

// patiently publishes what must be on the server before a commit.
type patiently struct {
	js      jetstream.JetStream
	link    *Link // of js
	retries func()
}

// publishUntilStored publishes a message until the server has it, perhaps more than once. A server
// that is there and refuses it, or does not answer for patience, gives the partition up
// for a while: the others' answers wait behind it.
func (e *patiently) publishUntilStored(ctx context.Context, msg *nats.Msg, what, stream string, w Waiter) error {
	what += " on " + msg.Subject
	var since time.Time // when the server, being there, first did not answer
	for {
		try, cancel := e.link.Attempt(ctx)
		_, err := e.js.PublishMsg(try, msg)
		late := try.Err() == context.DeadlineExceeded
		cancel()
		switch {
		case err == nil:
			w.NoteTaken()
			return nil
		case ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("%w: %s", ErrUnfinished, what)
		case !IsRefused(err) && !IsUnanswered(err) && !late: // the server is away
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		if IsRefused(err) || !since.IsZero() && time.Since(since) > patience {
			return fmt.Errorf("pipeline: %s cannot be stored: %w: make space in %s, restore it or undo what was changed, or allow the stage to publish there: %w", what, err, stream, ErrLater)
		}
		e.retries()
		if err := w.RetryLater(what, err); err != nil {
			return err
		}
		_ = Pause(ctx, RetryWait) // the next attempt fails by itself if ctx has ended
	}
}
