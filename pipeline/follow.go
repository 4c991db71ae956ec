package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// errBegun reports that another worker has begun the job with another readout since
// this worker looked: this worker restarts, and uses the job's readout.
var errBegun = errors.New("another worker has begun the job meanwhile")

// brought is a worker's model, and the job to join.
type brought struct {
	js      jetstream.JetStream
	job     string
	model   *reservoir.Model
	readout *readout.Linear
	name    string // of the model
	input   formats.Input
}

// orTheJobs returns the job's model if it has another readout of the same network, from
// the job's registry. An obstacle is no error here: join refuses a model that is not
// the job's. begun: the job has a readout.
func (b brought) orTheJobs(ctx context.Context, log *slog.Logger) (_ brought, begun bool, err error) {
	out, err := b.js.Stream(ctx, wire.OutputStream(b.job))
	if err != nil {
		return b, false, fmt.Errorf("pipeline: %w", err)
	}
	e, _, err := store.ReadEntry(ctx, out, b.job)
	if err != nil {
		return b, false, err
	}
	begun = e.Readout != ""
	if !begun || e.Input != inputText(b.input) {
		return b, begun, nil
	}
	own, err := readoutOf(b.model, b.readout, b.input)
	if err != nil || own == e.Readout {
		return b, begun, err
	}
	theirs, err := b.followEntry(ctx, e, log)
	switch {
	case err == nil:
		return theirs, begun, nil
	case errors.Is(err, registry.ErrNone), errors.Is(err, registry.ErrNoEntry), errors.Is(err, registry.ErrOtherNetwork):
		return b, begun, nil
	case errors.Is(err, registry.ErrDamaged):
		err = fmt.Errorf("pipeline: job %q runs another readout than this worker's, and cannot be followed: %w: %w", b.job, err, ErrOtherModel)
	}
	return b, begun, err
}

// followEntry returns the model that the job began with, if both have the same network.
func (b brought) followEntry(ctx context.Context, e wire.Entry, log *slog.Logger) (brought, error) {
	models, err := registry.Open(ctx, b.js, b.job)
	if err != nil {
		return b, err
	}
	found, err := models.Find(ctx, e.Readout, e.Input)
	if err != nil {
		return b, err
	}
	m, linear, found, err := models.Model(ctx, found.Fingerprint)
	if err != nil {
		return b, err
	}
	if same, err := registry.SameNetwork(m, b.model); err != nil || !same {
		return b, errors.Join(err, registry.ErrOtherNetwork)
	}
	own, err := registry.Fingerprint(b.model, b.readout)
	if err != nil {
		return b, err
	}
	log.Warn("this worker's model has another readout than the job: the worker predicts with the job's model from the registry; start it with the job's model to avoid this warning",
		"job_model", found.Model, "job_readout", found.Fingerprint, "own_model", b.name, "own_readout", own)
	b.model, b.readout, b.name = m, linear, found.Model
	return b, nil
}

// publishModel stores the model in the job's registry. The time limit of one attempt depends
// on the model's size; the registry sets it.
func (b brought) publishModel(ctx context.Context, network, worker string) error {
	for late := time.Now().Add(store.CommitTimeout); ; {
		models, err := registry.Make(ctx, b.js, b.job)
		if err == nil {
			_, _, err = models.Add(ctx, b.model, b.readout, network, b.name,
				registry.Lineage{Who: "worker " + worker, When: registry.Now(), Command: "eusn-stream run"})
		}
		again := store.IsUnanswered(err) && time.Now().Before(late) // another worker makes the bucket at this moment
		if !again || store.Pause(ctx, store.RetryWait) != nil {
			return err
		}
	}
}
