package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// self is a worker's identity within the job.
type self struct {
	readout    *readout.Linear
	model      wire.Identity
	meta       codec.PredictionMeta
	input      formats.Input
	worker     string      // its name
	engine     string      // its name
	arithmetic string      // the engine's, as in a record
	resize     wire.Resize // the change of partitions in the job's entry
	readouts   *readouts   // readouts known to the worker
	source     wire.Source // the job whose input is read, if it is another job
	begun      bool        // the job had a readout at this worker's first check
	entered    bool        // the job's entry exists
}

// pickReadout finds the named readout, the first where no name is given.
func pickReadout(m *reservoir.Model, name string) (*readout.Linear, error) {
	if len(m.Readouts) == 0 {
		return nil, errors.New("pipeline: the model has no readout: train one")
	}
	if name == "" {
		return m.Readouts[0], nil
	}
	var names []string
	for _, h := range m.Readouts {
		if h.Name == name {
			return h, nil
		}
		names = append(names, h.Name)
	}
	return nil, fmt.Errorf("pipeline: the model has no readout %q, only %q", name, names)
}

// setModel sets the readout, and the model's data for predictions and counters.
func (r *run) setModel(linear *readout.Linear, meta codec.PredictionMeta) {
	r.self.readout, r.self.meta = linear, meta
	r.counters.SetClasses(meta.Labels)
}

// settleModel replaces this worker's model with the job's model, if that has another
// readout of the same network.
func (r *run) settleModel(ctx context.Context) error {
	if r.worker.guard.identity != nil {
		return nil
	}
	theirs, begun, err := r.broughtModel().orTheJobs(ctx, r.log)
	if r.self.begun = begun; err != nil || theirs.model == r.worker.Model {
		return err
	}
	w := *r.worker
	w.Model, w.ModelName, w.Config.Readout = theirs.model, theirs.name, theirs.readout.Name
	linear, meta, err := w.predictingReadout()
	if err != nil {
		return err
	}
	r.worker, r.cfg.Readout = &w, linear.Name
	r.setModel(linear, meta)
	return nil
}

// publishModel puts this worker's model into the job's registry, before the job's entry
// names the model: a worker that finds the entry finds the model, too. A job without a
// registry runs, but other workers cannot follow.
func (r *run) publishModel(ctx context.Context) error {
	e, _, err := store.ReadEntry(ctx, r.server.Out, r.cfg.Job)
	if err != nil || r.self.model.Differs(e.Identity) != "" || r.worker.guard.identity != nil {
		return err // join refuses another model
	}
	if err := r.broughtModel().publishModel(ctx, r.self.model.Network, r.self.worker); err != nil && ctx.Err() == nil {
		r.log.Warn("this worker's model cannot be stored in the job's registry: the job runs, but workers with another readout are refused (docs/models.md)",
			"bucket", wire.ModelBucket(r.cfg.Job), "err", err)
	}
	return ctx.Err()
}

func (r *run) broughtModel() brought {
	return brought{r.server.JS, r.cfg.Job, r.worker.Model, r.self.readout, r.worker.ModelName, r.self.input}
}

// joinJob requires that this worker's model is the job's model, before the worker
// becomes visible. A new job gets this model, by a message with only one possible
// writer.
func (r *self) joinJob(ctx context.Context, at owner.Server, others *members, job string, log *slog.Logger) error {
	own := r.newEntry()
	theirs, seq, err := store.ReadEntry(ctx, at.Out, job)
	if err != nil {
		return err
	}
	begins := seq == 0
	if what := r.model.Differs(theirs.Identity); what != "" {
		return r.markOvertaken(ctx, at, job, r.refuseEntry(job, what, theirs))
	}
	if err := r.compareMembers(ctx, job, others); errors.Is(err, ErrOtherModel) {
		return r.markOvertaken(ctx, at, job, err)
	} else if err != nil {
		return err
	}
	theirs, err = store.AgreeEntry(ctx, &own, at.JS, at.Out, job)
	if err == nil && theirs.Source.Job != r.source.Job {
		return otherSource(job, theirs.Source.Job, r.source.Job)
	}
	r.entered = err == nil
	if err == nil && begins {
		log.Info("the job begins: the server holds no output of it. If the job has made predictions before, its NATS streams are lost: stop the stage and restore them", "job", job)
	}
	r.resize, r.source = theirs.Resize, theirs.Source
	if what := r.model.Differs(theirs.Identity); what != "" {
		return r.markOvertaken(ctx, at, job, r.refuseEntry(job, what, theirs))
	}
	if store.IsRefused(err) && own.Source.Job == "" { // as for a partition's records, handled there
		log.Warn("the server refused the entry of the job's model: a worker with another model is detected only by the records of partitions", "subject", wire.EntrySubject(job), "err", err)
		return nil
	}
	return err
}

// markOvertaken marks a refusal with errBegun if the job has begun since this worker looked
// for its model.
func (r *self) markOvertaken(ctx context.Context, at owner.Server, job string, refusal error) error {
	if e, _, err := store.ReadEntry(ctx, at.Out, job); r.begun || err != nil || e.Readout == "" {
		return refusal
	}
	return fmt.Errorf("%w: %w", errBegun, refusal)
}

func (r *self) newEntry() wire.Entry {
	return wire.Entry{Identity: r.model, Arithmetic: r.arithmetic, Worker: r.worker, Input: inputText(r.input), Source: r.source, Meta: r.meta}
}

// compareMembers refuses a model that differs from the living workers' model.
func (r *self) compareMembers(ctx context.Context, job string, others *members) error {
	info, err := others.stream.Info(ctx, jetstream.WithSubjectFilter(others.prefix+">"))
	if err != nil {
		return fmt.Errorf("pipeline: workers not listed: %w", err)
	}
	for subject := range info.State.Subjects {
		worker := strings.TrimPrefix(subject, others.prefix)
		if what := r.model.DiffersFrom(worker); what != "" {
			return r.otherModel(job, what, "worker "+worker+" runs another one")
		}
	}
	return nil
}

// refuseEntry reports the differences between a job's entry and this worker.
func (r *self) refuseEntry(job, what string, e wire.Entry) error {
	own := r.newEntry()
	if e.Arithmetic != own.Arithmetic && e.Meta.SHA256 != "" {
		return fmt.Errorf("%w: %w", owner.OtherArithmetic("job "+strconv.Quote(job), e.Arithmetic, own.Arithmetic), ErrOtherModel)
	}
	if what == "readout" && e.Input != own.Input && e.Readout != "" {
		return otherInput(job, e.Input, r.input)
	}
	theirs := "its model has no stored name"
	if e.Meta.SHA256 != "" {
		theirs = "it runs " + nameOf(e.Meta)
	}
	return r.otherModel(job, what, theirs)
}

func (r *self) otherModel(job, what, theirs string) error {
	advice := "a network (with its front end, policy, channels and arithmetic) cannot continue the states of another: start this worker with the job's model, or under another job name"
	if what == "readout" {
		advice = "a worker with another readout predicts with the job's, but the job's registry does not have that model: publish the job's model there, or start this worker with the job's model, readout (stage.readout) and input format (input.format and what belongs to it), or under another job name, into which states may be imported"
	}
	return fmt.Errorf("pipeline: job %q runs with another %s than this worker's: %s, this worker has %s: %s: %w", job, what, theirs, nameOf(r.meta), advice, ErrOtherModel)
}

// nameOf words a model for people.
func nameOf(m codec.PredictionMeta) string {
	return fmt.Sprintf("%s (sha256 %.12s, readout %q)", m.Model, m.SHA256, m.Readout)
}
