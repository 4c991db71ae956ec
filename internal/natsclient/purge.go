package natsclient

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// PurgeBefore removes the messages of a subject before message seq. Nothing precedes the
// first message, so a purge up to message 1 is never requested: some NATS servers, such as
// 2.12.6 and 2.14.0, would remove the whole subject.
func PurgeBefore(ctx context.Context, s jetstream.Stream, subject string, seq uint64) error {
	if seq < 2 {
		return nil
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(seq))
}
