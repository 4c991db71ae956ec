package resize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Job is a job whose number of partitions changes.
type Job struct {
	Name  string
	JS    jetstream.JetStream
	In    *store.Input
	Out   jetstream.Stream
	Snaps *store.Snapshots
	Log   *slog.Logger

	// Read returns the job's entry and its sequence number; Write puts another
	// in its place, and says so where somebody else was quicker.
	Read  func(ctx context.Context) (wire.Entry, uint64, error)
	Write func(ctx context.Context, e *wire.Entry, expect uint64) (taken bool, err error)
	Empty []byte // a message of no predictions

	// Drain lets the partitions of before answer their input up to message to,
	// with records of a generation, and stores their states.
	Drain func(ctx context.Context, generation uint64, partitions int, to uint64, mixed *store.Mixed) error
	Shape state.Shape // of the states that are drained
	// Largest is how many streams a partition may remember.
	Largest int

	// Begin is called before a change begins, and may refuse it.
	Begin func(ctx context.Context) error
	// Alone refuses a job whose input other jobs read. A job that begins to read it
	// says so before it looks at the entry, so one of the two sees the other.
	Alone func(ctx context.Context) error

	Progress func(step wire.ResizeStep, done, all int) // optional
	// Before is called before a step's change of the job is written, and ends
	// the work with its error. Only tests set it.
	Before func(what string) error

	entry wire.Entry
	seq   uint64 // of the entry
}

// The errors of a change that cannot begin, or not as asked for.
var (
	ErrNotRun = errors.New("no stage of this program has run the job yet: start it once, or, where it is new, set stage.partitions")
	ErrOther  = errors.New("another change of the number of partitions is under way")
	// ErrOtherChange is a change of another kind that must be completed first.
	ErrOtherChange = errors.New("another change of the job is under way")
	ErrPastCut     = errors.New("the server gives keys to the new partitions already: nothing is lost, but the change must be completed before the number can change back")
	// ErrAbandoning is a change that somebody began to abandon.
	ErrAbandoning = errors.New("a change of the job is being abandoned: complete that first")
	// ErrOvertaken: the same command ran twice.
	ErrOvertaken = errors.New("somebody else changed the job's entry meanwhile: look at it, and run the command again")
)

// look reads the entry.
func (j *Job) look(ctx context.Context) (err error) {
	if j.entry, j.seq, err = j.Read(ctx); err == nil && j.seq == 0 {
		err = fmt.Errorf("pipeline: job %q: %w", j.Name, ErrNotRun)
	}
	return err
}

// note writes what the entry is to say of the partitions, if nobody wrote since
// it was read.
func (j *Job) note(ctx context.Context, r wire.Resize) error {
	if err := j.before("note " + string(r.Step)); err != nil {
		return err
	}
	e := j.entry
	e.Resize = r
	return j.write(ctx, e)
}

// write puts an entry in the place of the one that was read.
func (j *Job) write(ctx context.Context, e wire.Entry) error {
	taken, err := j.Write(ctx, &e, j.seq)
	if now, seq, readErr := j.Read(ctx); readErr == nil && now.Resize == e.Resize { // also where the answer was lost
		j.entry, j.seq = now, seq
		return nil
	}
	if taken {
		return fmt.Errorf("pipeline: job %q: %w", j.Name, ErrOvertaken)
	}
	return err
}

func (j *Job) before(what string) error {
	if j.Before == nil {
		return nil
	}
	return j.Before(what)
}

func (j *Job) tell(step wire.ResizeStep, done, all int) {
	if j.Progress != nil {
		j.Progress(step, done, all)
	}
}

// Change brings the job to so many partitions, or continues with that where it
// was left. It returns what the entry says then.
func (j *Job) Change(ctx context.Context, to int) (wire.Resize, error) {
	if err := j.look(ctx); err != nil {
		return wire.Resize{}, err
	}
	r := j.entry.Resize
	if !r.UnderWay() {
		now, err := j.mapped(ctx)
		if err != nil {
			return r, err
		}
		if now == to {
			j.sweep(ctx)
			return wire.Resize{Generation: r.Generation, Partitions: now}, nil
		}
		if err := j.Alone(ctx); err != nil {
			return r, err
		}
		if err := j.Begin(ctx); err != nil {
			return r, err
		}
		if err := j.note(ctx, wire.Resize{Generation: r.Generation, Partitions: now, To: to, Step: wire.ResizeClaim}); err != nil {
			return r, err
		}
	} else if r.Abandoning() {
		return r, fmt.Errorf("pipeline: job %q: %w", j.Name, ErrAbandoning)
	} else if r.With != "" {
		return r, fmt.Errorf("pipeline: job %q: %w: %s: complete that with %s, or abandon it", j.Name, ErrOtherChange, r.What(), r.Command())
	} else if r.To != to {
		return r, fmt.Errorf("pipeline: job %q: %w, from %d to %d", j.Name, ErrOther, r.Partitions, r.To)
	}
	for _, step := range []struct {
		is wire.ResizeStep
		do func(context.Context) error
	}{
		{wire.ResizeClaim, j.claim}, {wire.ResizeSwitch, j.switchMapping}, {wire.ResizeDrain, j.drain},
		{wire.ResizeStore, j.store}, {wire.ResizePublish, j.publish},
	} {
		if j.entry.Resize.Step != step.is {
			continue
		}
		if err := step.do(ctx); err != nil {
			return j.entry.Resize, err
		}
	}
	j.sweep(ctx)
	return j.entry.Resize, nil
}

// sweep deletes what the partitions have stored that are not there any more.
// What cannot be deleted now stays until the next change, or the same command.
func (j *Job) sweep(ctx context.Context) {
	r := j.entry.Resize
	if r.UnderWay() || r.Generation == 0 {
		return
	}
	if err := j.Snaps.SweepUnused(ctx, r.Partitions, func() error { return j.unchanged(ctx) }, j.Log); err != nil {
		j.Log.Warn("states of partitions that are not used any more stay on disk: the same command deletes them", "err", err)
	}
}

// Look is what a job's partitions are, and how far a change has come.
func (j *Job) Look(ctx context.Context) (wire.Resize, error) {
	if err := j.look(ctx); err != nil {
		return wire.Resize{}, err
	}
	r := j.entry.Resize
	var err error
	if r.Partitions == 0 {
		r.Partitions, err = j.mapped(ctx)
	}
	return r, err
}

// mapped is how many partitions the server gives keys to.
func (j *Job) mapped(ctx context.Context) (int, error) {
	now, err := store.Open(ctx, j.JS, j.Name)
	if err != nil {
		return 0, err
	}
	return now.Partitions, nil
}

// claim takes the partitions from all workers, those that are asleep included:
// the server refuses what they commit, and they refuse the records.
func (j *Job) claim(ctx context.Context) error {
	r := j.entry.Resize
	if err := j.Alone(ctx); err != nil { // since it began
		return err
	}
	if err := j.take(ctx); err != nil {
		return err
	}
	info, err := j.In.Info(ctx, 0)
	if err != nil {
		return err
	}
	if _, err = j.copies(ctx, info.State.LastSeq); err != nil { // what a copy lacks yet, it would give to new partitions
		return err
	}
	r.Step, r.After = wire.ResizeSwitch, info.State.LastSeq
	return j.note(ctx, r)
}

// take raises the generation of all records.
func (j *Job) take(ctx context.Context) error {
	r := j.entry.Resize
	info, err := j.In.Info(ctx, 0)
	if err != nil {
		return err
	}
	for p := range r.Partitions {
		if err := j.begun(ctx, p); err != nil {
			return err
		}
		err := j.rewrite(ctx, p, func(now *wire.Record, seq uint64) bool {
			if now.Generation == r.Generation+1 {
				return false
			}
			if seq == 0 {
				*now = j.first(info.Created)
			}
			now.Kind, now.Generation = wire.KindClaim, r.Generation+1
			now.Epoch++
			return true
		})
		if err != nil {
			return err
		}
		j.tell(r.Step, p+1, r.Partitions)
	}
	return nil
}

// begun refuses a partition that has snapshots, but no record: it has lost that.
func (j *Job) begun(ctx context.Context, p int) error {
	_, seq, err := store.ReadRecord(ctx, j.Out, j.Name, p)
	if err != nil || seq > 0 {
		return err
	}
	all, err := j.Snaps.Entries(ctx, p)
	if err == nil && slices.ContainsFunc(all, func(e store.SnapshotEntry) bool { return e.Epoch > 0 }) {
		err = fmt.Errorf("pipeline: partition %d of job %q has snapshots, but no record: %w: restore %s first", p, j.Name, store.ErrRecordLost, wire.OutputStream(j.Name))
	}
	return err
}

// drain has the old partitions answer what is theirs.
func (j *Job) drain(ctx context.Context) error {
	r := j.entry.Resize
	if r.Mixed {
		var err error
		if j.In.Mixed, err = j.In.ReadMixed(ctx, r.After, r.Cut, r.Partitions, r.To); err != nil {
			return err
		}
		defer func() { j.In.Mixed = nil }()
	}
	if err := j.drainOwn(ctx); err != nil {
		return err
	}
	r.Step = wire.ResizeStore
	var err error
	if r.Epoch, err = j.free(ctx); err != nil {
		return err
	}
	return j.note(ctx, r)
}

// drainOwn has the job's partitions answer their input up to the cut.
func (j *Job) drainOwn(ctx context.Context) error {
	r := j.entry.Resize
	return until(ctx, j.drained, func(ctx context.Context) error {
		return j.Drain(ctx, r.Generation+1, r.Partitions, r.Cut, j.In.Mixed)
	})
}

// until drains until all is drained.
func until(ctx context.Context, drained, drain func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := drained(ctx)
		if err == nil {
			return nil
		}
		if attempt > drains || attempt > 1 && store.Pause(ctx, store.RetryWait) != nil {
			return err
		}
		if err := drain(ctx); err != nil {
			return err
		}
	}
}

// free is an epoch that no record, and no snapshot, has yet.
func (j *Job) free(ctx context.Context) (epoch uint64, err error) {
	r := j.entry.Resize
	for p := range max(r.Partitions, r.To) {
		now, _, err := store.ReadRecord(ctx, j.Out, j.Name, p)
		if err != nil {
			return 0, err
		}
		epoch = max(epoch, now.Epoch)
	}
	return epoch + claimRoom, nil
}

// drains is how often it is tried to drain: the first one may wait for the lease
// of one that was killed.
const drains = 20

// claimRoom is how many epochs are left free before those that the new
// partitions begin with: a drain that was asleep may claim partitions of before
// again, and must not name a snapshot as they do.
const claimRoom = 1000

// drained reports what is still to be answered or stored of the old partitions.
func (j *Job) drained(ctx context.Context) error {
	r := j.entry.Resize
	for p := range r.Partitions {
		now, _, err := store.ReadRecord(ctx, j.Out, j.Name, p)
		if err != nil {
			return err
		}
		next, err := j.In.Next(ctx, p, now.InSeq)
		switch {
		case err != nil:
			return fmt.Errorf("pipeline: input of partition %d: %w", p, err)
		case now.Generation != r.Generation+1:
			return fmt.Errorf("pipeline: partition %d is of generation %d, want %d: a worker has it that knows nothing of the change; stop it", p, now.Generation, r.Generation+1)
		case next.Seq > 0 && next.Seq <= r.Cut:
			return fmt.Errorf("pipeline: partition %d has not answered input message %d", p, next.Seq)
		case now.Kind != wire.KindReleased, now.SnapSeq != now.InSeq, now.Ahead > 0, now.InSeq > 0 && now.Snap == "":
			return fmt.Errorf("pipeline: the state of partition %d after input message %d is not stored", p, now.InSeq)
		}
	}
	return nil
}
