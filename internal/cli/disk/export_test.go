package disk

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/config"
)

// EnforceLimit removes the oldest messages of a job beyond a limit in bytes once.
func EnforceLimit(ctx context.Context, js jetstream.JetStream, c config.Config, log *slog.Logger, limit float64, age time.Duration) error {
	j, err := admin.Open(ctx, js, c.Job)
	if err != nil {
		return err
	}
	stored, err := j.Stored(ctx)
	if err == nil {
		l := limiter{js: js, conf: c, log: log, limit: limit, age: age}
		l.enforceLimit(ctx, stored.Average())
	}
	return err
}
