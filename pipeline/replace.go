package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/resize"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

// The reasons for which a job does not continue with the network of another one.
var (
	// ErrUnfit is another job whose states cannot become this one's.
	ErrUnfit = errors.New("it cannot continue with that job's states")
	// ErrOtherJob is a change that was begun with another job.
	ErrOtherJob = resize.ErrOtherJob
)

// Replaced is what a job is after Replace.
type Replaced struct {
	Job        string `json:"job"`
	With       string `json:"with"`       // whose network and states it has
	Step       string `json:"step"`       // the one that is under way; empty = the change is complete
	Cut        uint64 `json:"cut"`        // the last input message that the network of before has answered; 0 = this call did not find it
	Generation uint64 `json:"generation"` // how often the job's partitions have been changed
	Network    string `json:"network"`    // as in the job's entry
	Readout    string `json:"readout"`
}

// Replace lets a job continue with the network and the states of another one, which
// reads its input beside it: up to an input message, the cut, the network of before
// has predicted, and from then on the other one, in each partition exactly once, on
// the job's own output. Open sequences continue in the other job's states. The other job
// stays as it is. No worker of either may run; producers need not stop. Both stages have
// the models of their jobs. It may be ended at any time, and called again; until it has
// begun to publish, AbandonResize returns to what was. progress is optional.
func (job *Job) Replace(ctx context.Context, with *Job, progress func(step string, done, all int)) (Replaced, error) {
	c, err := job.replacing(ctx, with)
	if err != nil {
		return c.now, err
	}
	defer c.end()
	if c.done {
		return c.now, nil
	}
	j := c.job
	if err := job.drains(ctx, with, j, c.other, progress); err != nil {
		return c.now, err
	}
	c.other.Alone = func(ctx context.Context) error { return with.noWorkers(ctx, j.JS) }
	c.other.Models = func(ctx context.Context) error { return copyModels(ctx, j.JS, c.now.With, c.now.Job) }
	j.Begin = func(ctx context.Context) error {
		for _, of := range []*Job{job, with} {
			if err := of.noWorkers(ctx, j.JS); err != nil {
				return err
			}
			if err := promotionTaken(ctx, j.JS, of.Config.WithDefaults().Job); err != nil {
				return err
			}
		}
		return nil
	}
	if progress != nil {
		j.Progress = func(step wire.ResizeStep, done, all int) { progress(string(step), done, all) }
	}
	cut, err := j.Replace(ctx, c.other)
	now, _, lost := j.Read(context.WithoutCancel(ctx))
	if lost == nil {
		c.now = replaced(c.now, now)
	}
	c.now.Cut = cut
	return c.now, err
}

// CheckReplace makes sure, as far as can be known while workers run, that Replace can
// begin or continue. It changes nothing.
func (job *Job) CheckReplace(ctx context.Context, with *Job) (Replaced, error) {
	c, err := job.replacing(ctx, with)
	if err == nil {
		c.end()
	}
	return c.now, err
}

// replacing is a Replace before it has changed anything.
type replacing struct {
	job   *resize.Job
	other *resize.Other
	now   Replaced
	done  bool
	end   func()
}

// replacing opens both jobs, and compares them.
func (job *Job) replacing(ctx context.Context, with *Job) (c replacing, err error) {
	c.now = Replaced{Job: job.Config.WithDefaults().Job, With: with.Config.WithDefaults().Job}
	c.job, c.end, err = job.resizeJob(ctx)
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
	e, _, err := c.job.Read(ctx)
	if err != nil {
		return c, err
	}
	if c.other, err = with.otherJob(ctx, c.job); err != nil {
		return c, err
	}
	theirs := c.other.Entry
	c.now = replaced(c.now, e)
	if c.done = !e.Resize.UnderWay() && e.Identity == theirs.Identity; c.done {
		return c, nil // there is nothing to do, or no more
	}
	if err := alike(c.now, e, theirs); err != nil {
		return c, err
	}
	if c.job.Shape, err = job.mayResize(ctx, c.job.Name, c.job.Out); err != nil {
		return c, err
	}
	c.other.Shape, err = with.mayResize(ctx, c.other.Name, c.other.Out)
	return c, err
}

func replaced(r Replaced, e wire.Entry) Replaced {
	r.Step, r.Generation, r.Network, r.Readout = string(e.Resize.Step), e.Resize.Generation, e.Network, e.Readout
	return r
}

// drains sets how each of the two jobs answers its input up to a message.
func (job *Job) drains(ctx context.Context, with *Job, j *resize.Job, other *resize.Other, progress func(step string, done, all int)) error {
	cfg, source, err := settleSource(ctx, j.JS, with.Config)
	if errors.Is(err, ErrReplacing) { // this very change
		source = other.Entry.Source
		cfg.Shared.Job = source.Job
		cfg, err = cfg.on(j.In.Stream)
	}
	if err != nil {
		return err
	}
	green := *with
	green.Config = cfg
	tell := func(step string, done, all int) {
		if progress != nil {
			progress(string(wire.ReplaceDrain), done, all)
		}
	}
	j.Drain = func(ctx context.Context, generation uint64, partitions int, upTo uint64, _ *store.Mixed) error {
		return job.drainTo(ctx, partitions, &draining{generation: generation, to: upTo}, tell)
	}
	other.Drain = func(ctx context.Context, upTo uint64) error {
		return green.drainTo(ctx, cfg.Partitions, &draining{generation: other.Entry.Resize.Generation, to: upTo, source: source}, tell)
	}
	return nil
}

// otherJob finds the job with whose states job j is to continue.
func (job *Job) otherJob(ctx context.Context, j *resize.Job) (*resize.Other, error) {
	name := job.Config.WithDefaults().Job
	found, snaps, err := openStored(ctx, j.JS, name)
	if err != nil {
		return nil, err
	}
	snaps.Link = j.Snaps.Link
	e, seq, err := store.ReadEntry(ctx, found.Out, name)
	switch {
	case err != nil:
		return nil, err
	case e.Source.Job != j.Name:
		return nil, fmt.Errorf("pipeline: job %q does not read the input of job %q: %w: start it with eusn-stream run --job %s --input-job %s, and let it catch up", name, j.Name, ErrUnfit, name, j.Name)
	case seq == 0 || e.Readout == "":
		return nil, fmt.Errorf("pipeline: job %q: %w", name, ErrNotBegun)
	case e.Source.Created != wire.CreatedText(j.In.Stream.CachedInfo().Created):
		return nil, fmt.Errorf("pipeline: job %q reads an input of job %q that is not there any more: %w", name, j.Name, ErrUnfit)
	}
	o := &resize.Other{Name: name, In: found.Input(snaps.Link), Out: found.Out, Snaps: snaps, Entry: e}
	o.Empty, err = emptyOf(e.Meta)
	return o, err
}

// alike makes sure that readers of the job's predictions can continue.
func alike(r Replaced, own, other wire.Entry) error {
	if own.Network == other.Network && !own.Resize.UnderWay() {
		return fmt.Errorf("pipeline: jobs %q and %q have one network, and two readouts: %w: publish that readout for job %q and promote it (eusn-stream model publish, model promote)", r.Job, r.With, ErrUnfit, r.Job)
	}
	if !slices.Equal(own.Meta.Labels, other.Meta.Labels) {
		return fmt.Errorf("pipeline: job %q predicts the classes %q, and job %q the classes %q: %w: readers of the predictions of job %q would meet classes that they do not know; let them read the predictions of job %q instead",
			r.Job, own.Meta.Labels, r.With, other.Meta.Labels, ErrUnfit, r.Job, r.With)
	}
	return nil
}

// copyModels brings the models of a job into the registry of another one, but those
// that are retired and not in use.
func copyModels(ctx context.Context, js jetstream.JetStream, from, to string) error {
	theirs, err := registry.Open(ctx, js, from)
	if errors.Is(err, registry.ErrNone) {
		return nil // the first worker publishes its own
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

// Find is the job of a name, with the model that the job began with, which its
// registry has.
func (job *Job) Find(ctx context.Context, name string) (*Job, error) {
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
	of.Config.Shared = SharedInput{Job: found.Source.Job}
	if found.Source.Job != "" {
		of.Config.InputSubject = ""
	}
	return &of, nil
}
