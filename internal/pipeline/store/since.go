package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	sinceForget = time.Minute     // the server deletes a consumer without a client after this time
	sinceWait   = 2 * time.Second // for an answer, before the request is repeated
)

// FirstSince returns the number of the first message stored at time t or later; without
// such a message, the last number plus 1.
func FirstSince(ctx context.Context, js jetstream.JetStream, in jetstream.StreamState, stream string, t time.Time) (uint64, error) {
	if seq, known := firstSince(in, t); known {
		return seq, nil
	}
	for {
		m, err := nextSince(ctx, js, stream, t)
		if err == nil {
			meta, err := m.Metadata()
			if err != nil {
				return 0, fmt.Errorf("pipeline: message on %s: %w", m.Subject(), err)
			}
			return meta.Sequence.Stream, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if !errors.Is(err, jetstream.ErrNoMessages) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) {
			return 0, fmt.Errorf("pipeline: consumer of %s: %w", stream, err)
		}
		now, err := js.Stream(ctx, stream) // its messages may have been removed meanwhile
		if err != nil {
			return 0, fmt.Errorf("pipeline: NATS stream %s: %w", stream, err)
		}
		if seq, known := firstSince(now.CachedInfo().State, t); known {
			return seq, nil
		}
	}
}

// nextSince returns a message of a NATS stream. No ordered consumer: if the connection breaks,
// it would try without end, also after the end of ctx.
func nextSince(ctx context.Context, js jetstream.JetStream, stream string, t time.Time) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, sinceWait)
	defer cancel()
	cons, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &t, HeadersOnly: true, InactiveThreshold: sinceForget,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return nil, err
	}
	return cons.Next(jetstream.FetchContext(ctx))
}

// firstSince is FirstSince for cases decided by the state of the NATS stream.
func firstSince(in jetstream.StreamState, t time.Time) (seq uint64, known bool) {
	switch {
	case in.Msgs == 0 || in.LastTime.Before(t):
		return in.LastSeq + 1, true
	case !in.FirstTime.Before(t):
		return in.FirstSeq, true
	}
	return 0, false
}
