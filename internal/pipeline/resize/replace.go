package resize

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Other is a job that reads the input of a Job, and with whose network and states that
// one is to continue. It is read, and stays as it is but for what it answers meanwhile.
type Other struct {
	Name  string
	In    *store.Input // as that job reads it
	Out   jetstream.Stream
	Snaps *store.Snapshots
	Shape state.Shape
	Entry wire.Entry
	Empty []byte // a message of none of its predictions

	// Drain lets its partitions answer their input up to message to, and stores their
	// states.
	Drain func(ctx context.Context, to uint64) error
	// Alone refuses where workers of it run.
	Alone func(ctx context.Context) error
	// Models brings its readouts into the registry of the Job.
	Models func(ctx context.Context) error
}

// ErrOtherJob is a change that was begun with another job.
var ErrOtherJob = errors.New("it is being given the network and states of another job")

// Replace lets the job continue with the network and the states of another one, or continues
// with that where it was left: up to a cut, both jobs answer their input; then the
// other's states become this job's, which stand after the cut. It returns the cut, 0 if
// there is none yet.
func (j *Job) Replace(ctx context.Context, by *Other) (cut uint64, err error) {
	if err := j.begin(ctx, by); err != nil {
		return 0, err
	}
	was := j.Shape
	j.Shape = by.Shape // of what is stored from now on
	for j.entry.Resize.UnderWay() && err == nil {
		switch j.entry.Resize.Step {
		case wire.ReplaceClaim:
			err = j.takeOver(ctx)
		case wire.ReplaceDrain:
			err = j.drainBoth(ctx, by)
		case wire.ReplaceStore:
			err = j.adopt(ctx, by, was)
		default:
			cut = j.entry.Resize.Cut
			err = j.continues(ctx, by)
		}
	}
	return cut, err
}

// begin writes the change into the job's entry, or finds it there.
func (j *Job) begin(ctx context.Context, by *Other) error {
	if err := j.look(ctx); err != nil {
		return err
	}
	r := j.entry.Resize
	switch {
	case !r.UnderWay():
		now, err := j.mapped(ctx)
		if err == nil {
			err = j.Begin(ctx)
		}
		if err == nil {
			err = j.note(ctx, wire.Resize{Generation: r.Generation, Partitions: now, To: now, With: by.Name, Step: wire.ReplaceClaim})
		}
		if err != nil {
			return err
		}
	case r.Abandoning():
		return fmt.Errorf("pipeline: job %q: %w", j.Name, ErrAbandoning)
	case r.With == "":
		return fmt.Errorf("pipeline: job %q: %w: %s: complete that with %s", j.Name, ErrOtherChange, r.What(), r.Command())
	case r.With != by.Name:
		return fmt.Errorf("pipeline: job %q: %w, %q: complete that with %s, or abandon it", j.Name, ErrOtherJob, r.With, r.Command())
	}
	return nil
}

// takeOver takes the partitions from all workers.
func (j *Job) takeOver(ctx context.Context) error {
	if err := j.take(ctx); err != nil {
		return err
	}
	r := j.entry.Resize
	r.Step = wire.ReplaceDrain
	return j.note(ctx, r)
}

// drainBoth has both jobs answer their input up to a cut, the last message that there
// is. Each attempt has a cut of its own.
func (j *Job) drainBoth(ctx context.Context, by *Other) error {
	if err := by.Alone(ctx); err != nil {
		return err
	}
	r := j.entry.Resize
	var err error
	if r.Cut, err = j.furthest(ctx, by); err != nil {
		return err
	}
	if r.Cut, r.Stored, err = j.stored(ctx, r.Cut); err != nil {
		return err
	}
	if err := j.note(ctx, r); err != nil {
		return err
	}
	if err := j.drainOwn(ctx); err != nil {
		return err
	}
	err = until(ctx, func(ctx context.Context) error { return by.drained(ctx, r) }, func(ctx context.Context) error { return by.Drain(ctx, r.Cut) })
	if err != nil {
		return err
	}
	if r.Epoch, err = j.free(ctx); err != nil {
		return err
	}
	r.Step, r.Promoted = wire.ReplaceStore, j.entry.Promotions.Last().Number
	for p := range r.Partitions {
		now, _, err := store.ReadRecord(ctx, j.Out, j.Name, p)
		if err != nil {
			return err
		}
		r.Promoted = max(r.Promoted, now.Promoted.Known)
	}
	return j.note(ctx, r)
}

// furthest is the last input message that there is, also where the server that
// answers does not know yet what a partition has answered.
func (j *Job) furthest(ctx context.Context, by *Other) (uint64, error) {
	var last uint64
	for p := range j.entry.Resize.Partitions {
		for _, from := range []held{{name: j.Name, out: j.Out}, {name: by.Name, out: by.Out}} {
			now, _, err := store.ReadRecord(ctx, from.out, from.name, p)
			if err != nil {
				return 0, err
			}
			last = max(last, now.InSeq)
		}
	}
	info, err := j.In.Info(ctx, last)
	if err != nil {
		return 0, err
	}
	return max(last, info.State.LastSeq), nil
}

// drained reports what the other job has still to answer or store, or that it has
// gone on.
func (o *Other) drained(ctx context.Context, r wire.Resize) error {
	for p := range r.Partitions {
		now, _, err := store.ReadRecord(ctx, o.Out, o.Name, p)
		if err != nil {
			return err
		}
		next, err := o.In.Next(ctx, p, now.InSeq)
		switch {
		case err != nil:
			return fmt.Errorf("pipeline: input of partition %d: %w", p, err)
		case now.InSeq > r.Cut:
			return fmt.Errorf("pipeline: partition %d of job %q has answered input message %d, which is behind the cut, %d: a worker of that job runs: stop it, and run the command again", p, o.Name, now.InSeq, r.Cut)
		case next.Seq > 0 && next.Seq <= r.Cut:
			return fmt.Errorf("pipeline: partition %d of job %q has not answered input message %d", p, o.Name, next.Seq)
		case now.Kind != wire.KindReleased, now.SnapSeq != now.InSeq, now.Ahead > 0, now.InSeq > 0 && now.Snap == "":
			return fmt.Errorf("pipeline: the state of partition %d of job %q after input message %d is not stored", p, o.Name, now.InSeq)
		}
	}
	return nil
}

// adopt stores the other job's states as this job's, next to those of before, of shape
// was. Where the other job has gone on meanwhile, there is another cut.
func (j *Job) adopt(ctx context.Context, by *Other, was state.Shape) error {
	r := j.entry.Resize
	if by.drained(ctx, r) != nil {
		r.Step = wire.ReplaceDrain
		return j.note(ctx, r)
	}
	for p := range r.Partitions {
		before, old, err := j.load(ctx, held{by.Name, by.Out, by.Snaps, by.Shape}, []int{p})
		if err != nil {
			return err
		}
		_, own, err := j.load(ctx, held{j.Name, j.Out, j.Snaps, was}, []int{p})
		if err != nil {
			return err
		}
		doubt := len(old) == 0 && by.Entry.Source.From > 1
		part, err := state.Adopt(old, p, wire.Place{Seq: r.Cut, Stored: r.Stored}, r.Promoted, doubt)
		if err != nil {
			return err
		}
		var moved Digests
		if err := moved.add(part); err != nil {
			return err
		}
		if part.Len() > j.Largest {
			return fmt.Errorf("pipeline: partition %d of job %q has %d streams, but max streams (stage.max_streams) is %d: raise it (to stay), and run the command again", p, by.Name, part.Len(), j.Largest)
		}
		for _, known := range own { // the other job may have begun late
			part.Acquaint(known, &j.Shape, j.Largest)
		}
		var whole, after Digests
		if err := whole.add(part); err != nil {
			return err
		}
		if err := j.put(ctx, part, &after); err != nil {
			return err
		}
		if moved != before || after != whole {
			return fmt.Errorf("pipeline: the keys of partition %d of job %q have the digest %v (%d streams), but %v (%d streams) after they were stored for job %q: this is a fault of the program or of the server's store; the states of before are untouched",
				p, by.Name, before.Keys, before.Streams, after.Keys, after.Streams, j.Name)
		}
		j.tell(r.Step, p+1, r.Partitions)
	}
	if r.Step = wire.ReplacePublish; by.drained(ctx, r) != nil { // a worker began meanwhile: its record may be behind the cut
		r.Step = wire.ReplaceDrain
	}
	return j.note(ctx, r)
}

// continues gives the partitions records of the other job's states, and the job that
// job's network.
func (j *Job) continues(ctx context.Context, by *Other) error {
	if err := by.Models(ctx); err != nil {
		return err
	}
	r, next := j.entry.Resize, j.entry
	next.Identity, next.Arithmetic, next.Input, next.Meta = by.Entry.Identity, by.Entry.Arithmetic, by.Entry.Input, by.Entry.Meta
	next.Worker, next.Promotions, next.Shadows = j.worker(), nil, "" // those were of the network of before
	if r.Promoted > 0 {
		next.Promotions = next.Promotions.And(wire.Promotion{Number: r.Promoted, Who: "job replace --with " + by.Name, When: time.Now().UTC().Truncate(time.Second)})
	}
	for _, p := range by.Entry.Promotions {
		p.Number += r.Promoted
		next.Promotions = next.Promotions.And(p)
	}
	j.Empty = by.Empty
	return j.publishAs(ctx, next)
}
