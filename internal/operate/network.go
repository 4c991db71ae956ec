package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Replaced is the condition of a job after Replace.
type Replaced struct {
	Job        string `json:"job"`
	With       string `json:"with"`       // the job with the adopted network and states
	Step       string `json:"step"`       // the current step; empty = the change is complete
	Cut        uint64 `json:"cut"`        // the last input message that the previous network has answered; 0 = this call did not find it
	Generation uint64 `json:"generation"` // how often the job's partitions have been changed
	Network    string `json:"network"`    // as in the job's entry
	Readout    string `json:"readout"`
}

// ReplaceOptions are the options of Replace.
type ReplaceOptions struct {
	With     *pipeline.Job           // with its own model
	Progress Progress                // optional
	Before   func(what string) error // as in ResizeOptions
}

// Replace makes a job continue with the network and the states of another job, a parallel
// reader of the same input: up to an input message, the cut, the previous network
// predicts, and afterwards the new network, in each partition exactly once, on the job's
// own output. Open sequences continue in the new states. The parallel job stays
// unchanged. No worker of either may run; producers need not stop. Replace may be
// interrupted at any time, and repeated; until the publication has begun, Abandon
// restores the previous condition.
func Replace(ctx context.Context, job *pipeline.Job, o ReplaceOptions) (Replaced, error) {
	c, err := openReplace(ctx, job, o.With)
	if err != nil {
		return c.now, err
	}
	defer c.end()
	if c.done {
		return c.now, nil
	}
	j := c.change
	j.progress, j.hook = o.Progress, o.Before
	cut, err := j.replaceNetwork(ctx, c.other)
	now, _, lost := store.ReadEntry(context.WithoutCancel(ctx), j.out, j.name)
	if lost == nil {
		c.now = replacedBy(c.now, now)
	}
	c.now.Cut = cut
	return c.now, err
}

// CheckReplace checks, as far as possible while workers run, that Replace can begin or
// continue. CheckReplace changes nothing.
func CheckReplace(ctx context.Context, job, with *pipeline.Job) (Replaced, error) {
	c, err := openReplace(ctx, job, with)
	if err == nil {
		c.end()
	}
	return c.now, err
}

// replacing is a Replace before any change.
type replacing struct {
	change *change
	other  *other
	now    Replaced
	done   bool
	end    func()
}

// openReplace opens both jobs, and compares them.
func openReplace(ctx context.Context, job, with *pipeline.Job) (c replacing, err error) {
	c.now = Replaced{Job: job.Config.WithDefaults().Job, With: with.Config.WithDefaults().Job}
	c.change, c.end, err = openChange(ctx, job)
	if errors.Is(err, ErrShared) {
		err = fmt.Errorf("pipeline: job %q reads another job's input: only the job whose input it is can continue with the states of another one: %w", c.now.Job, ErrShared)
	}
	if err != nil {
		return c, err
	}
	defer func() {
		if err != nil {
			c.end()
		}
	}()
	if err = c.change.readEntry(ctx); err != nil {
		return c, err
	}
	if c.other, err = openOther(ctx, with, c.change); err != nil {
		return c, err
	}
	e, theirs := c.change.entry, c.other.entry
	c.now = replacedBy(c.now, e)
	if c.done = !e.Resize.UnderWay() && e.Identity == theirs.Identity; c.done {
		return c, nil // nothing is left to do
	}
	if err := checkAlike(c.now, e, theirs); err != nil {
		return c, err
	}
	if c.change.shape, err = shapeOf(ctx, c.change.js, job); err != nil {
		return c, err
	}
	c.other.shape, err = shapeOf(ctx, c.change.js, with)
	return c, err
}

func replacedBy(r Replaced, e wire.Entry) Replaced {
	r.Step, r.Generation, r.Network, r.Readout = string(e.Resize.Step), e.Resize.Generation, e.Network, e.Readout
	return r
}

// openOther opens the job with the future states of job j.
func openOther(ctx context.Context, job *pipeline.Job, j *change) (*other, error) {
	name := job.Config.WithDefaults().Job
	found, snaps, err := store.OpenStates(ctx, j.js, name)
	if err != nil {
		return nil, err
	}
	snaps.Link = j.snaps.Link
	e, seq, err := store.ReadEntry(ctx, found.Out, name)
	switch {
	case err != nil:
		return nil, err
	case e.Source.Job != j.name:
		return nil, fmt.Errorf("pipeline: job %q does not read the input of job %q: %w: start a worker of job %q with input.job %s, and let it catch up", name, j.name, ErrUnfit, name, j.name)
	case seq == 0 || e.Readout == "":
		return nil, fmt.Errorf("pipeline: job %q: %w", name, ErrNotBegun)
	case e.Source.Created != wire.CreatedText(j.in.Stream.CachedInfo().Created):
		return nil, fmt.Errorf("pipeline: job %q reads an input of job %q that is not there any more: %w", name, j.name, ErrUnfit)
	}
	o := &other{job: job, name: name, in: found.Input(snaps.Link), out: found.Out, snaps: snaps, entry: e}
	o.empty, err = wire.NoPredictions(e.Meta)
	return o, err
}

// checkAlike requires unchanged conditions for readers of the job's predictions.
func checkAlike(r Replaced, own, other wire.Entry) error {
	if own.Network == other.Network && !own.Resize.UnderWay() {
		return fmt.Errorf("pipeline: jobs %q and %q have one network, and two readouts: %w: publish that readout for job %q and promote it", r.Job, r.With, ErrUnfit, r.Job)
	}
	if !slices.Equal(own.Meta.Labels, other.Meta.Labels) {
		return fmt.Errorf("pipeline: job %q predicts the classes %q, and job %q the classes %q: %w: readers of the predictions of job %q would meet classes that they do not know; let them read the predictions of job %q instead",
			r.Job, own.Meta.Labels, r.With, other.Meta.Labels, ErrUnfit, r.Job, r.With)
	}
	return nil
}

// copyModels copies the models of a job into the registry of another job, except
// retired models not in use.
func copyModels(ctx context.Context, js jetstream.JetStream, from, to string) error {
	theirs, err := registry.Open(ctx, js, from)
	if errors.Is(err, registry.ErrNone) {
		return nil // the first worker publishes its own model
	}
	if err != nil {
		return err
	}
	all, err := theirs.List(ctx)
	if err != nil {
		return err
	}
	ours, err := registry.Make(ctx, js, to)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Usable() != nil {
			continue
		}
		m, linear, e, err := theirs.Model(ctx, e.Fingerprint)
		if err == nil {
			_, _, err = ours.Add(ctx, m, linear, e.Network, e.Model, e.Lineage)
		}
		if err != nil {
			return fmt.Errorf("pipeline: model %s of job %q: %w", e.Fingerprint, from, err)
		}
	}
	return nil
}

// FindJob returns the job with a name, with the job's first model, from its registry.
func FindJob(ctx context.Context, job *pipeline.Job, name string) (*pipeline.Job, error) {
	nc, err := job.Dial(ctx, "model")
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("pipeline: JetStream: %w", err)
	}
	found, err := store.Open(ctx, js, name)
	if err != nil {
		return nil, err
	}
	e, seq, err := store.ReadEntry(ctx, found.Out, name)
	if err != nil {
		return nil, err
	}
	if seq == 0 || e.Readout == "" {
		return nil, fmt.Errorf("pipeline: job %q: %w", name, ErrNotBegun)
	}
	models, err := registry.Open(ctx, js, name)
	if err != nil {
		return nil, err
	}
	entry, err := models.Find(ctx, e.Readout, e.Input)
	if err != nil {
		return nil, err
	}
	m, linear, entry, err := models.Model(ctx, entry.Fingerprint)
	if err != nil {
		return nil, err
	}
	of := *job
	of.Model, of.ModelName = m, entry.Model
	of.Config.Job, of.Config.Readout, of.Config.Partitions = name, linear.Name, 0
	of.Config.Shared = pipeline.SharedInput{Job: found.Source.Job}
	if found.Source.Job != "" {
		of.Config.InputSubject = ""
	}
	return &of, nil
}
