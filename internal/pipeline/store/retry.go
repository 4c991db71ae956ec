package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	CommitTimeout = 5 * time.Second        // an answer not here by then is asked for
	RetryWait     = 100 * time.Millisecond // between attempts while the server is away
	StaleGrace    = 10 * time.Second       // a deposed leader may answer from the past this long
)

// ErrLater gives a partition up without stopping it. The server refuses what
// it needs, or does not answer, and its shard's others may need nothing of the
// kind: it is claimed again from its last snapshot, after a while and again,
// until the cause is gone. Nothing was committed that rests on what failed.
var ErrLater = errors.New("the stage tries again automatically")

// IsRefused reports whether the server has said no to a message: asking again at
// once is of no use.
func IsRefused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) || errors.Is(err, nats.ErrMaxPayload)
}

// IsUnanswered reports whether the server has no NATS stream that would take a
// message: it was deleted, or has no leader for now.
func IsUnanswered(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
}

// OvertakenBy reports whether a publish was refused because its subject has
// another last message than was expected.
func OvertakenBy(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Backoff is how long somebody waits before attempts that follow each other: each
// time about twice as long, RetryWait first and mostBackoff at most. Half of it is
// drawn by chance, so that those who fail together do not try again together.
type Backoff struct{ wait time.Duration }

const mostBackoff = 30 * time.Second

// Next is the time before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.wait = min(mostBackoff, max(RetryWait, 2*b.wait))
	return b.wait/2 + rand.N(b.wait/2)
}

// Reset is for what succeeded.
func (b *Backoff) Reset() { b.wait = 0 }

// Pause waits, or returns ctx's error.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
