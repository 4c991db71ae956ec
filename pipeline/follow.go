package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/registry"
)

// errBegun is that of a worker whose job another worker has begun with another
// readout since this one looked: it starts again, and follows.
var errBegun = errors.New("another worker has begun the job meanwhile")

// settleModel takes the job's model in the place of this worker's, where that has
// another readout of the same network: the job's registry has it. What keeps it
// from that is no error here: join refuses a model that is not the job's.
func (r *run) settleModel(ctx context.Context) error {
	if r.stage.guard.identity != nil {
		return nil
	}
	out, err := r.server.JS.Stream(ctx, wire.OutputStream(r.cfg.Job))
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	e, _, err := store.ReadEntry(ctx, out, r.cfg.Job)
	if err != nil {
		return err
	}
	r.self.begun = e.Readout != ""
	if !r.self.begun || e.Input != inputText(r.self.input) {
		return nil
	}
	own, err := readoutOf(r.stage.Model, r.self.head, r.self.input)
	if err != nil || own == e.Readout {
		return err
	}
	models, err := registry.Open(ctx, r.server.JS, r.cfg.Job)
	if err == nil {
		err = r.follow(ctx, models, e)
	}
	switch {
	case errors.Is(err, registry.ErrNone), errors.Is(err, registry.ErrNoEntry), errors.Is(err, registry.ErrOtherNetwork):
		return nil
	case errors.Is(err, registry.ErrDamaged):
		return fmt.Errorf("pipeline: job %q runs another readout than this worker's, and cannot be followed: %w: %w", r.cfg.Job, err, ErrOtherModel)
	}
	return err
}

// follow replaces this run's model by the one that the job began with, if the
// two have one network.
func (r *run) follow(ctx context.Context, models *registry.Models, e wire.Entry) error {
	found, err := models.Find(ctx, e.Readout, e.Input)
	if err != nil {
		return err
	}
	m, head, found, err := models.Model(ctx, found.Fingerprint)
	if err != nil {
		return err
	}
	if same, err := registry.SameNetwork(m, r.stage.Model); err != nil || !same {
		return errors.Join(err, registry.ErrOtherNetwork)
	}
	own, err := registry.Fingerprint(r.stage.Model, r.self.head)
	if err != nil {
		return err
	}
	r.log.Warn("the job runs another readout of this network than this worker's model has: this worker takes the job's model from its registry and predicts with that; start it with the job's model (eusn-stream model show active --out FILE), and this line is gone",
		"job_model", found.Model, "job_readout", found.Fingerprint, "own_model", r.stage.ModelName, "own_readout", own)
	s := *r.stage
	s.Model, s.ModelName, s.Config.Head = m, found.Model, head.Name
	r.stage, r.cfg.Head = &s, head.Name
	return r.setModel()
}

// publishModel puts this worker's model into the job's registry, before the job
// says that it runs it: so a worker that finds the job's entry finds its model,
// too. A job without a registry runs, but nobody can follow it.
func (r *run) publishModel(ctx context.Context) error {
	e, _, err := store.ReadEntry(ctx, r.server.Out, r.cfg.Job)
	if err != nil || r.self.model.Differs(e.Identity) != "" || r.stage.guard.identity != nil {
		return err // join refuses another model
	}
	try, cancel := context.WithTimeout(ctx, store.CommitTimeout)
	defer cancel()
	for {
		err = r.publishOnce(try)
		if !store.Unheard(err) || store.Pause(try, store.RetryWait) != nil { // another worker makes the bucket at this moment
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("the job's registry does not take this worker's model: the job runs, but workers with another readout are refused, because they find no model to predict with (docs/models.md)",
			"bucket", wire.ModelBucket(r.cfg.Job), "err", err)
	}
	return ctx.Err()
}

func (r *run) publishOnce(ctx context.Context) error {
	models, err := registry.Make(ctx, r.server.JS, r.cfg.Job)
	if err != nil {
		return err
	}
	_, _, err = models.Add(ctx, r.stage.Model, r.self.head, r.self.model.Network, r.stage.ModelName,
		registry.Lineage{Who: "worker " + r.self.worker, When: registry.Now(), Command: "eusn-stream run"})
	return err
}
