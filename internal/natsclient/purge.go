package natsclient

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// PurgeBefore removes the messages of a subject before message seq. Nothing precedes the
// first message: NATS servers before 2.12.15 and 2.14.10 take a purge up to message 1 for
// a purge of the whole subject, so it is never requested.
func PurgeBefore(ctx context.Context, s jetstream.Stream, subject string, seq uint64) error {
	if seq < 2 {
		return nil
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(seq))
}
