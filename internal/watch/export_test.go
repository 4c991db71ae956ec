package watch

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// RunWith is Run with a connection that a test may stand behind.
func RunWith(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, o Options) error {
	sayOnce(&o)
	return run(ctx, &lasting{nc: nc, js: js, link: store.Follow(nc)}, o)
}
