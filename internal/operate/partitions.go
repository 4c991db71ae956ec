package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// IsWrongState reports whether an error is a mismatch of a state and its record, as after
// answers under other settings.
func IsWrongState(err error) bool { return errors.As(err, new(*state.Mismatch)) }

// StepAbandon is the step of an abandoned change.
const StepAbandon = string(wire.ResizeAbandon)

// Resized is the condition of a job's partitions after Resize.
type Resized struct {
	Job        string `json:"job"`
	Partitions int    `json:"partitions"`
	Generation uint64 `json:"generation"`     // how often the number has changed
	Step       string `json:"step"`           // the current step; empty = the change is complete
	To         int    `json:"to"`             // while a change is under way
	With       string `json:"with,omitempty"` // the other job, while the job is given its states
}

func resizedTo(job string, r wire.Resize) Resized {
	return Resized{Job: job, Partitions: r.Partitions, Generation: r.Generation, Step: string(r.Step), To: r.To, With: r.With}
}

// ResizeOptions are the options of Resize.
type ResizeOptions struct {
	To       int      // the new number of partitions
	Progress Progress // optional
	// Before is called before each write; its error ends the change. Only tests set it.
	Before func(what string) error
}

// Resize changes the job's number of partitions, or continues a begun change to this
// number. No worker may run; producers need not stop. Config, Model and NewEngine must be
// the job's, to answer the stored input; Config.Partitions is not used. Resize may be
// interrupted at any time, and repeated.
func Resize(ctx context.Context, job *pipeline.Job, o ResizeOptions) (Resized, error) {
	if o.To < 1 || o.To > store.MaxPartitions {
		return Resized{}, fmt.Errorf("pipeline: %d partitions, want 1 to %d", o.To, store.MaxPartitions)
	}
	j, end, err := openChange(ctx, job)
	if err != nil {
		return Resized{}, err
	}
	defer end()
	j.progress, j.hook = o.Progress, o.Before
	if j.shape, err = shapeOf(ctx, j.js, job); err != nil {
		return Resized{}, err
	}
	r, err := j.resizeJob(ctx, o.To)
	return resizedTo(j.name, r), err
}

// Resizing returns a job's partitions, and the progress of a change. It uses Config.Job
// and Dial.
func Resizing(ctx context.Context, job *pipeline.Job) (Resized, error) {
	j, end, err := openChange(ctx, job)
	if err != nil {
		return Resized{}, err
	}
	defer end()
	r, err := j.readChange(ctx)
	return resizedTo(j.name, r), err
}

// Abandon ends a change of the number of partitions before the server's change, or of the
// network before any publication of the new states: the job is unchanged. Later, Abandon
// returns ErrPastCut. before is as in ResizeOptions.
func Abandon(ctx context.Context, job *pipeline.Job, before func(what string) error) error {
	j, end, err := openChange(ctx, job)
	if err != nil {
		return err
	}
	defer end()
	j.hook = before
	return j.abandonChange(ctx)
}

// openChange opens a job for a change; end closes it.
func openChange(ctx context.Context, job *pipeline.Job) (j *change, end func(), err error) {
	c := job.Config.WithDefaults()
	nc, err := job.Dial(ctx, "resize")
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			nc.Close()
		}
	}()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, nil, fmt.Errorf("pipeline: JetStream: %w", err)
	}
	found, snaps, err := store.OpenStates(ctx, js, c.Job)
	if errors.Is(err, jetstream.ErrBucketNotFound) { // the first worker ended while it created the job
		err = fmt.Errorf("pipeline: job %q: %w: %w", c.Job, ErrNotBegun, err)
	}
	if err != nil {
		return nil, nil, err
	}
	if other := found.Source.Job; other != "" {
		return nil, nil, fmt.Errorf("pipeline: job %q reads the input of job %q, and has its partitions: only the number of job %q can change, while no other job reads its input: %w", c.Job, other, other, ErrShared)
	}
	snaps.Link = store.Follow(nc)
	j = &change{
		job: job, name: c.Job, js: js, out: found.Out, snaps: snaps, log: job.Log, largest: c.MaxStreams,
		in: found.Input(snaps.Link),
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	e, _, err := store.ReadEntry(ctx, found.Out, c.Job)
	if err != nil {
		return nil, nil, err
	}
	if j.empty, err = wire.NoPredictions(e.Meta); err != nil {
		return nil, nil, err
	}
	return j, nc.Close, nil
}

// checkNoReaders requires that only this job reads the input. A new reader writes the
// reader's entry before reading the job's entry, so the reader or this check sees the
// conflict.
func checkNoReaders(ctx context.Context, js jetstream.JetStream, job string) error {
	readers, err := store.ReadersOf(ctx, js, job)
	if err != nil || len(readers) == 0 {
		return err
	}
	return fmt.Errorf("pipeline: the input of job %q is also read by job %s, which has its states by the partitions of now: %w: delete these jobs first (docs/second-job.md, Several jobs on one input), or keep the number",
		job, strings.Join(readers, ", "), ErrShared)
}

// checkIdle requires that a change of jobs may begin: no worker lives, and all
// partitions have used the newest promotion.
func checkIdle(ctx context.Context, js jetstream.JetStream, jobs ...*pipeline.Job) error {
	for _, job := range jobs {
		name := job.Config.WithDefaults().Job
		if err := checkNoWorkers(ctx, js, name); err != nil {
			return err
		}
		if err := checkPromotionTaken(ctx, js, name); err != nil {
			return err
		}
	}
	return nil
}

// checkNoWorkers requires that no worker of the job lives, as far as known: the
// records' generation stops unknown workers. A killed worker is in the list until its
// lease ends; a worker on a busy machine may renew late.
func checkNoWorkers(ctx context.Context, js jetstream.JetStream, job string) error {
	name := wire.MemberStream(job)
	var until time.Time
	for none := 0; ; {
		stream, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		var info *jetstream.StreamInfo
		if err == nil {
			info, err = stream.Info(ctx, jetstream.WithSubjectFilter(">"))
		}
		if err != nil {
			return fmt.Errorf("pipeline: workers not listed: %w", err)
		}
		if none++; len(info.State.Subjects) > 0 {
			none = 0
		}
		if none*int(store.RetryWait) > int(info.Config.MaxAge) {
			return nil
		}
		if until.IsZero() {
			until = time.Now().Add(info.Config.MaxAge + time.Second)
		}
		if none == 0 && time.Now().After(until) {
			var names []string
			for subject := range info.State.Subjects {
				names = append(names, subject[strings.LastIndexByte(subject, '.')+1:])
			}
			return fmt.Errorf("pipeline: %w: %s: stop them; producers may continue, and what they send is answered afterwards", ErrWorkers, strings.Join(names, ", "))
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return err
		}
	}
}

// shapeOf requires, before any change, equal models and input formats of a job and the
// job on the server, and returns the shape of the states.
func shapeOf(ctx context.Context, js jetstream.JetStream, job *pipeline.Job) (state.Shape, error) {
	alone := *job
	alone.Config.Partitions, alone.Config.Shards = 1, 1
	p, err := bridge.Prepare(&alone)
	if err != nil {
		return state.Shape{}, err
	}
	stored, err := store.Open(ctx, js, alone.Config.Job)
	if err == nil {
		err = p.AdoptInput(ctx, stored)
	}
	if err != nil {
		return state.Shape{}, err
	}
	linear, _ := p.Predicting()
	sh, err := shard.New(p.ShardConfig(), alone.Model, linear, alone.NewEngine, new(stats.Counters), alone.Log)
	if err != nil {
		return state.Shape{}, err
	}
	defer sh.Close()
	e, _, err := store.ReadEntry(ctx, stored.Out, stored.Name)
	if err != nil {
		return state.Shape{}, err
	}
	own := sh.Machine.Shape.Identity()
	if own.Readout, err = p.ReadoutIdentity(); err != nil {
		return state.Shape{}, err
	}
	if what := own.Differs(e.Identity); what != "" {
		return state.Shape{}, fmt.Errorf("pipeline: job %q runs with another %s than this model's: %w", stored.Name, what, pipeline.ErrOtherModel)
	}
	return sh.Machine.Shape, nil
}
