package consumer

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ServerTime returns the time by the clock of a job's server, which stamps stored
// messages: a relative time such as "ten minutes ago" must use this clock. Without an
// answer of the server, ServerTime returns the local time.
func ServerTime(ctx context.Context, js jetstream.JetStream, job string) time.Time {
	if s, err := js.Stream(ctx, wire.OutputStream(job)); err == nil && !s.CachedInfo().TimeStamp.IsZero() {
		return s.CachedInfo().TimeStamp
	}
	return time.Now()
}
