package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/resize"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// The reasons for which a job's number of partitions does not change.
var (
	// ErrWorkers is a job whose workers must be stopped first.
	ErrWorkers = errors.New("workers of the job are running")
	// ErrShared is an input that several jobs read: each has its states by these
	// partitions.
	ErrShared = errors.New("several jobs read this input")
	// ErrResizeOther is a change that was begun to another number.
	ErrResizeOther = resize.ErrOther
	// ErrAbandoning is a change that somebody began to abandon.
	ErrAbandoning = resize.ErrAbandoning
	// ErrPastCut is a change that cannot be abandoned any more.
	ErrPastCut = resize.ErrPastCut
	// ErrOtherChange is a change of another kind that must be completed first.
	ErrOtherChange = resize.ErrOtherChange
)

// WrongState reports whether an error says that a state is not as its record says,
// which is so where messages were answered under other settings.
func WrongState(err error) bool { return errors.As(err, new(*state.Mismatch)) }

// StepAbandon is the step of a change that is being abandoned.
const StepAbandon = string(wire.ResizeAbandon)

// Resized is what a job's partitions are after Resize.
type Resized struct {
	Job        string `json:"job"`
	Partitions int    `json:"partitions"`
	Generation uint64 `json:"generation"`     // how often the number has changed
	Step       string `json:"step"`           // the one that is under way; empty = the change is complete
	To         int    `json:"to"`             // while a change is under way
	With       string `json:"with,omitempty"` // while the job is given the states of another one: which
}

func resized(job string, r wire.Resize) Resized {
	return Resized{Job: job, Partitions: r.Partitions, Generation: r.Generation, Step: string(r.Step), To: r.To, With: r.With}
}

// Resize changes the job's number of partitions to another one, or continues with
// a change to that number which was begun. No worker may run; producers need not
// stop. Config, Model and NewEngine must be those of the job, with which what
// was stored before is answered; Config.Partitions is not used. It may be ended
// at any time, and called again. progress is optional.
func (job *Job) Resize(ctx context.Context, to int, progress func(step string, done, all int)) (Resized, error) {
	if to < 1 || to > maxPartitions {
		return Resized{}, fmt.Errorf("pipeline: %d partitions, want 1 to %d", to, maxPartitions)
	}
	j, end, err := job.resizeJob(ctx)
	if err != nil {
		return Resized{}, err
	}
	defer end()
	j.Begin = func(ctx context.Context) error {
		if err := job.noWorkers(ctx, j.JS); err != nil {
			return err
		}
		return promotionTaken(ctx, j.JS, j.Name)
	}
	j.Alone = func(ctx context.Context) error { return notRead(ctx, j.JS, j.Name) }
	if j.Shape, err = job.mayResize(ctx, j.Name, j.Out); err != nil {
		return Resized{}, err
	}
	j.Drain = func(ctx context.Context, generation uint64, partitions int, upTo uint64, mixed *store.Mixed) error {
		return job.drainTo(ctx, partitions, &draining{generation: generation, to: upTo, mixed: mixed}, progress)
	}
	if progress != nil {
		j.Progress = func(step wire.ResizeStep, done, all int) { progress(string(step), done, all) }
	}
	r, err := j.Change(ctx, to)
	return resized(j.Name, r), err
}

// Resizing is what a job's partitions are, and how far a change has come. It uses
// Config.Job and Dial.
func (job *Job) Resizing(ctx context.Context) (Resized, error) {
	j, end, err := job.resizeJob(ctx)
	if err != nil {
		return Resized{}, err
	}
	defer end()
	r, err := j.Look(ctx)
	return resized(j.Name, r), err
}

// AbandonResize ends a change of the number of partitions that the server does
// not follow yet: the job is as it was. Later it returns ErrPastCut.
func (job *Job) AbandonResize(ctx context.Context) error {
	j, end, err := job.resizeJob(ctx)
	if err != nil {
		return err
	}
	defer end()
	return j.Abandon(ctx)
}

// resizeJob opens the job; end closes what was opened.
func (job *Job) resizeJob(ctx context.Context) (j *resize.Job, end func(), err error) {
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
	found, snaps, err := openStored(ctx, js, c.Job)
	if err != nil {
		return nil, nil, err
	}
	if other := found.Source.Job; other != "" {
		return nil, nil, fmt.Errorf("pipeline: job %q reads the input of job %q, and has its partitions: only the number of job %q can change, while no other job reads its input: %w", c.Job, other, other, ErrShared)
	}
	snaps.Link = store.Follow(nc)
	j = &resize.Job{
		Name: c.Job, JS: js, Out: found.Out, Snaps: snaps, Log: job.Log, Largest: c.MaxStreams,
		In:     found.Input(snaps.Link),
		Before: job.resizeHook,
	}
	if j.Log == nil {
		j.Log = slog.New(slog.DiscardHandler)
	}
	e, _, err := store.ReadEntry(ctx, found.Out, c.Job)
	if err != nil {
		return nil, nil, err
	}
	if j.Empty, err = emptyOf(e.Meta); err != nil {
		return nil, nil, err
	}
	j.Read = func(ctx context.Context) (wire.Entry, uint64, error) { return store.ReadEntry(ctx, found.Out, c.Job) }
	j.Write = func(ctx context.Context, e *wire.Entry, expect uint64) (bool, error) {
		return writeEntry(ctx, js, e, c.Job, expect, j.Empty)
	}
	return j, nc.Close, nil
}

func emptyOf(meta codec.PredictionMeta) ([]byte, error) {
	return (&run{self: self{meta: meta}}).newEmpty()
}

// notRead makes sure that no other job reads a job's input.
func notRead(ctx context.Context, js jetstream.JetStream, job string) error {
	readers, err := store.ReadersOf(ctx, js, job)
	if err != nil || len(readers) == 0 {
		return err
	}
	return fmt.Errorf("pipeline: the input of job %q is also read by job %s, which has its states by the partitions of now: %w: delete these jobs first (docs/operations.md, Several jobs on one input), or keep the number",
		job, strings.Join(readers, ", "), ErrShared)
}

// noWorkers makes sure that no worker of the job lives, as far as is known: of
// others, the records' generation takes care. One that has just ended without
// saying so is in the list until its lease ends; one on a busy machine may be
// late to renew it.
func (job *Job) noWorkers(ctx context.Context, js jetstream.JetStream) error {
	name := wire.MemberStream(job.Config.WithDefaults().Job)
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

// mayResize makes sure, before anything changes, that the stage's model and
// input format are the job's, and returns the shape of its states.
func (job *Job) mayResize(ctx context.Context, name string, out jetstream.Stream) (state.Shape, error) {
	alone := Worker{Job: *job}
	alone.Config.Partitions, alone.Config.Shards = 1, 1
	r, err := alone.prepare()
	if err != nil {
		return state.Shape{}, err
	}
	sh, err := shard.New(r.cfg.shard(), job.Model, r.self.readout, job.NewEngine, r.counters, r.log)
	if err != nil {
		return state.Shape{}, err
	}
	defer sh.Close()
	e, _, err := store.ReadEntry(ctx, out, name)
	if err != nil {
		return state.Shape{}, err
	}
	if r.self.input, err = inputOf(ctx, out, name, job.Model, r.self.readout, r.cfg.Input); err != nil {
		return state.Shape{}, err
	}
	r.self.model, r.self.arithmetic = sh.Machine.Shape.Identity(), sh.Arithmetic
	if r.self.model.Readout, err = readoutOf(job.Model, r.self.readout, r.self.input); err != nil {
		return state.Shape{}, err
	}
	if what := r.self.model.Differs(e.Identity); what != "" {
		return state.Shape{}, r.self.refuse(name, what, e)
	}
	return sh.Machine.Shape, nil
}

// drainWatch is how often it is looked whether all is answered.
const drainWatch = 20 * time.Millisecond

// drainTo works on the partitions of before until they have answered all input
// up to a message, and their states are stored.
func (job *Job) drainTo(ctx context.Context, partitions int, upTo *draining, progress func(step string, done, all int)) error {
	d := Worker{Job: *job, drain: upTo}
	c := &d.Config
	c.Partitions, c.Idle, c.Forget = partitions, 0, 0 // no end events: they would come behind the cut
	if c.Shards > partitions {
		c.Shards = partitions
	}
	r, err := d.prepare()
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer stop()
		r.watchDrain(work, partitions, progress)
	}()
	defer context.AfterFunc(work, func() { r.stopping.Store(true) })()
	err = r.work(work)
	stop()
	<-watched
	return errors.Join(ctx.Err(), err)
}

// watchDrain returns when this worker's share is drained, or a partition of it
// has stopped.
func (r *run) watchDrain(ctx context.Context, partitions int, progress func(step string, done, all int)) {
	told := -1
	for store.Pause(ctx, drainWatch) == nil {
		v := r.view.Load()
		if v == nil {
			continue
		}
		done := 0
		for _, p := range v.share {
			if t := v.owned[p]; t == nil {
				continue
			} else if ok, err := t.Drained(ctx); err == nil && ok {
				done++
			}
		}
		if progress != nil && done > told {
			told = done
			progress(string(wire.ResizeDrain), done, partitions)
		}
		// Others are those of a drain that was killed, whose lease has not ended,
		// or that runs at the same time.
		if len(v.share) > 0 && done == len(v.share) || len(v.stopped) > 0 {
			return
		}
	}
}
