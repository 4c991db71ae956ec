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
	CommitTimeout = 5 * time.Second        // an answer missing for this long is requested again
	RetryWait     = 100 * time.Millisecond // between attempts while the server is away
	StaleGrace    = 10 * time.Second       // a deposed leader may answer from the past this long
)

// ErrLater gives a partition up without stopping it permanently. The server refuses a
// request of the partition, or does not answer, while other partitions of the shard may
// be unaffected: the partition is reclaimed from its last snapshot, after a growing
// pause, until the cause is gone. No commit depends on the failed request.
var ErrLater = errors.New("the stage tries again automatically")

// IsRefused reports whether the server has refused a message: an immediate retry is
// useless.
func IsRefused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) || errors.Is(err, nats.ErrMaxPayload)
}

// IsUnanswered reports whether no NATS stream accepts a message: the stream was
// deleted, or has no leader at the moment.
func IsUnanswered(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
}

// OvertakenBy reports whether a publish was refused because its subject has another
// last message than expected.
func OvertakenBy(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Backoff is the pause before a retry: about doubled after each attempt, RetryWait
// first and mostBackoff at most. Half of it is random, so that failures at the same
// time do not retry at the same time.
type Backoff struct{ wait time.Duration }

const mostBackoff = 30 * time.Second

// Next is the time before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.wait = min(mostBackoff, max(RetryWait, 2*b.wait))
	return b.wait/2 + rand.N(b.wait/2)
}

// Reset restarts the pauses after a success.
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
