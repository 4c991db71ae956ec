package bridge

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/readout"
)

// Functions of package pipeline.
var (
	// Prepare checks configuration and model of a *pipeline.Job. It fills the job's Config with all defaults, and sets
	// Log if nil.
	Prepare func(job any) (Prepared, error)
	// Drain works on the partitions of a *pipeline.Job in change until they have answered all input up to a message,
	// and their states are stored. progress receives the number of finished partitions.
	Drain func(ctx context.Context, job any, d Drained, progress func(done, all int)) error
	// AdoptServer fills a *pipeline.Config with its defaults, and with the server's configuration of the job's input.
	AdoptServer func(ctx context.Context, js jetstream.JetStream, config any) (wire.Source, error)
	// Layout returns the configuration of the NATS streams of a job with a pipeline.Config.
	Layout func(config any) store.Layout
	// Trace lets a *pipeline.Worker trace messages: t selects messages, and receives their spans (docs/traces.md).
	Trace func(worker any, t trace.Tracer)
)

// Prepared is a *pipeline.Job with a checked configuration and model.
type Prepared interface {
	// Predicting returns the predicting readout, and the model's data in predictions.
	Predicting() (*readout.Linear, codec.PredictionMeta)
	// AdoptInput sets the job's Config to read messages as the job on the server does.
	AdoptInput(ctx context.Context, stored *store.Job) error
	// ReadoutIdentity returns the part of the job's identity for the readout and the input format.
	ReadoutIdentity() (string, error)
	// ShardConfig returns the configuration of the job's shards.
	ShardConfig() shard.Config
}

// Drained limits the input that a worker answers for a job in change.
type Drained struct {
	Partitions int    // before the change
	Generation uint64 // of the records that the worker writes
	To         uint64 // the last input message to answer
	Mixed      *store.Mixed
	Source     wire.Source // of a job that reads another job's input
}
