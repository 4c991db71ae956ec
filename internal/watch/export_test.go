package watch

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// RunWith is Run with a connection that a test may wrap.
func RunWith(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, o Options) error {
	reportStandbyOnce(&o)
	return runConnected(ctx, &processState{nc: nc, js: js, link: store.Follow(nc)}, o)
}
