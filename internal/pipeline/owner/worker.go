package owner

import (
	"context"
	"log/slog"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Worker is the data shared by all ownerships of a worker. The data does not change
// after the first ownership has begun.
type Worker struct {
	Job        string
	Partitions int
	Lease      time.Duration
	Keep       time.Duration // how long replaced objects are kept

	Name  string // the worker's
	Model wire.Identity
	Empty []byte // a message of no predictions
	Pull  int    // bytes that a consumer may request at a time

	Generation uint64 // of the job, see wire.Resize
	Drain      *Drain // nil but where the job's number of partitions changes

	Server Server

	Counters  *stats.Counters
	Log       *slog.Logger
	Now       func() time.Time                            // the clock of leases
	Lives     func(worker string) bool                    // whether another worker lives, as far as is known
	Reader    func(part int) (jetstream.JetStream, error) // the connection of a partition's consumer
	Connected func() bool                                 // whether every connection is up
	Shards    context.Context                             // ends with the shards
	Common    *Common                                     // nil: each partition has its own consumer

	Safeguards
}

// Drain is the work on the partitions of a job before the number of partitions changes:
// up to an input message, and in the next generation.
type Drain struct {
	To uint64 // the last input message of the old partitions
}

// endsBefore reports whether an input message belongs to the new partitions.
func (d *Drain) endsBefore(seq uint64) bool { return d != nil && seq > d.To }

// Server is a job's data on its NATS server.
type Server struct {
	JS        jetstream.JetStream // for commits
	Link      *store.Link         // of JS
	In        *store.Input
	Out       jetstream.Stream
	Snaps     *store.Snapshots
	Auxiliary *store.Auxiliary // nil in Rebuild, which does not use them
	Entered   bool             // the job's entry existed when the worker joined
}

// Safeguards disable a check each, so that the fault harness can show the check's
// purpose. The zero value disables none; only builds with the tag chaos disable checks.
type Safeguards struct {
	Condition func(m *nats.Msg, r wire.Record)            // see store.Committer
	Claimed   func(p *state.Partition, input error) error // replaces the results of a claim's checks of the input and of the expected state
	Restored  func(p *state.Partition)                    // modifies a restored state
	Trusting  bool                                        // treat the input as unchanged while working
}
