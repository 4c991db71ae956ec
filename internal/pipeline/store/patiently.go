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

// patiently publishes messages that the server must store before a commit.
type patiently struct {
	js      jetstream.JetStream
	link    *Link // of js
	retries func()
}

// publishUntilStored publishes a message until the server has stored it, perhaps
// repeatedly. If a reachable server refuses the message, or does not answer within the
// patience, the partition is given up for a while: answers of other partitions wait.
func (e *patiently) publishUntilStored(ctx context.Context, msg *nats.Msg, what, stream string, w Waiter) error {
	what += " on " + msg.Subject
	var since time.Time // time of the first missing answer of a reachable server
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
