package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// Access for the tests of package pipeline_test to a worker's internals.

// Ensure makes the NATS streams of a job as a worker does.
func Ensure(ctx context.Context, js jetstream.JetStream, c Config, fresh int, log *slog.Logger) (Config, error) {
	return ensureJob(ctx, js, c, fresh, log)
}

// OpenMembers opens the list of workers as a worker does.
func OpenMembers(ctx context.Context, js jetstream.JetStream, c Config, self string) error {
	_, err := openMembers(ctx, js, c, self, nil)
	return err
}

// SetKeep sets how long replaced objects are kept, and the clock of leases.
func (job *Job) SetKeep(keep time.Duration, clock func() time.Time) {
	job.keep, job.clock = keep, clock
}

// SetPatience sets how long partitions read with their own consumers after a common
// reading, and how long a commit waits for shadows.
func (w *Worker) SetPatience(apart, shadowing time.Duration) { w.apart, w.shadowing = apart, shadowing }

// Common is the common reader of a worker.
func (c *Counters) Common() *owner.Common { return c.running.Load().owners.Common }

// Server returns a worker's data on the server.
func (c *Counters) Server() owner.Server { return c.running.Load().server }

// Owned are the ownerships of a worker.
func (c *Counters) Owned() map[int]*owner.Ownership { return c.running.Load().view.Load().owned }

// AtWork returns the shards of a worker; none while it is not connected.
func (c *Counters) AtWork() []*shard.Shard {
	if r := c.running.Load(); r != nil {
		return r.shards
	}
	return nil
}

// Counts returns the counters that Stats reads.
func (c *Counters) Counts() *stats.Counters { return &c.counts }

// Layout is the configuration of the job's NATS streams.
func (c Config) Layout() store.Layout { return c.layout() }

// Shard is the configuration of shards.
func (c Config) Shard() shard.Config { return c.shardConfig() }
