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

// Worker is what all ownerships of a worker share. It is not changed after
// the first ownership has begun.
type Worker struct {
	Job        string
	Partitions int
	Lease      time.Duration
	Keep       time.Duration // how long what a record names no more is kept

	Name  string // the worker's
	Model wire.Identity
	Empty []byte // a message of no predictions
	Pull  int    // bytes that a consumer may ask for at once

	Generation uint64 // of the job, see wire.Resize
	Drain      *Drain // nil but where the job's number of partitions changes

	Server Server

	Counters  *stats.Counters
	Log       *slog.Logger
	Now       func() time.Time                            // what leases read
	Lives     func(worker string) bool                    // whether another worker lives, as far as is known
	Reader    func(part int) (jetstream.JetStream, error) // the connection that a partition's consumer uses
	Connected func() bool                                 // whether every connection is up
	Shards    context.Context                             // ends with the shards
	Common    *Common                                     // nil: each partition has a consumer of its own

	Safeguards
}

// Drain is the work on the partitions that a job had before its number of
// partitions changes: up to an input message, and in the next generation.
type Drain struct {
	To uint64 // the last input message that belongs to them
}

// Server is what a job has on its NATS server.
type Server struct {
	JS        jetstream.JetStream // for commits
	Link      *store.Link         // of JS
	In        *store.Input
	Out       jetstream.Stream
	Snaps     *store.Snapshots
	Auxiliary *store.Auxiliary // nil in Rebuild, which never asks for them
	Entered   bool             // the job's entry was there when the worker joined
}

// Safeguards leave a check out each, so that the fault harness can see what that
// check is for. The zero value leaves none out; only builds with the tag chaos
// have others.
type Safeguards struct {
	Condition func(m *nats.Msg, r wire.Record)            // see store.Committer
	Claimed   func(p *state.Partition, input error) error // what a claim makes of what it found of the input, and of what is expected of the state
	Restored  func(p *state.Partition)                    // what becomes of a snapshot's state
	Trusting  bool                                        // while it works: the input is the one it was
}
