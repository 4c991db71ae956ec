package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Job is the data of a job for workers and other operations. Fields without "optional"
// are required, unless an operation lists the used fields.
type Job struct {
	Config    Config
	Model     *reservoir.Model
	ModelName string        // optional: shown in predictions
	NewEngine EngineFactory // called by the shard that will own the engine
	// Dial opens one more connection to the NATS server under a name. A worker needs a
	// few: a connection for commits and a connection per 32 MiB of pulls. The caller of
	// Dial closes all connections.
	Dial func(ctx context.Context, name string) (*nats.Conn, error)
	Log  *slog.Logger // optional

	keep  time.Duration    // how long replaced objects are kept; 0 = keepReplaced, negative = not at all
	clock func() time.Time // the clock of leases; nil = time.Now
}

// EngineFactory makes an engine with a pool of slots for a network. A shard calls it at
// the start and for each larger pool.
type EngineFactory func(net *reservoir.Network, slots int) (reservoir.Engine, error)

// prepared is a job with a checked configuration and model: Config has all defaults,
// and Log is not nil.
type prepared struct {
	*Job
	linear *readout.Linear // the predicting readout
	meta   codec.PredictionMeta
}

// prepare checks configuration and model. The job is not changed.
func (job *Job) prepare() (*prepared, error) {
	if job.Model == nil || job.NewEngine == nil {
		return nil, errors.New("pipeline: stage without model, engine factory or connection")
	}
	if err := errors.Join(job.Config.Validate(), job.Model.Validate(), job.Model.CheckLengths()); err != nil {
		return nil, err
	}
	own := *job
	p := &prepared{Job: &own}
	p.Config = job.Config.WithDefaults()
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if p.linear, p.meta, err = job.predictingReadout(); err != nil {
		return nil, err
	}
	if _, err := formats.New(p.Config.Input, codec.Schema{Channels: job.Model.Channels}); err != nil {
		return nil, err // before any request to a server
	}
	if job.Model.Policy.Kind == reservoir.Endless {
		p.Log.Warn("sequences of this model never end, so its states must forget: if predictions drift, train a model with a larger gamma*eps")
	}
	return p, nil
}

// Readout returns the model's readout that the job predicts with.
func (job *Job) Readout() (*readout.Linear, error) {
	return pickReadout(job.Model, job.Config.Readout)
}

// leaseClock returns the clock of leases.
func (job *Job) leaseClock() func() time.Time {
	if job.clock != nil {
		return job.clock
	}
	return time.Now
}

// predictingReadout returns the predicting readout, and the model's data in predictions.
func (job *Job) predictingReadout() (*readout.Linear, codec.PredictionMeta, error) {
	linear, err := job.Readout()
	if err != nil {
		return nil, codec.PredictionMeta{}, err
	}
	sum, err := job.Model.Fingerprint()
	if err != nil {
		return nil, codec.PredictionMeta{}, fmt.Errorf("pipeline: %w", err)
	}
	return linear, codec.PredictionMeta{Model: job.ModelName, SHA256: sum, Readout: linear.Name, Labels: linear.Classes, Columns: linear.Columns()}, nil
}

// Predicting returns the predicting readout, and the model's data in predictions.
func (p *prepared) Predicting() (*readout.Linear, codec.PredictionMeta) { return p.linear, p.meta }

// AdoptInput sets Config to read messages as the job on the server does.
func (p *prepared) AdoptInput(ctx context.Context, stored *store.Job) (err error) {
	p.Config.Shared.Job = stored.Source.Job
	p.Config.Input, err = inputOf(ctx, stored.Out, stored.Name, p.Model, p.linear, p.Config.Input)
	return err
}

// ReadoutIdentity returns the part of the job's identity for the readout and the input
// format.
func (p *prepared) ReadoutIdentity() (string, error) {
	return readoutOf(p.Model, p.linear, p.Config.Input)
}

// ShardConfig is the configuration of the job's shards.
func (p *prepared) ShardConfig() shard.Config { return p.Config.shardConfig() }
