package operate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// change is a change of a job on which no worker works: of its number of partitions, or
// of its network.
type change struct {
	job   *pipeline.Job
	name  string
	js    jetstream.JetStream
	in    *store.Input
	out   jetstream.Stream
	snaps *store.Snapshots
	log   *slog.Logger

	shape    state.Shape // of the states that are drained
	largest  int         // how many streams a partition may remember
	empty    []byte      // a message of none of the job's predictions
	progress Progress    // optional
	hook     func(what string) error

	entry wire.Entry
	seq   uint64 // of the entry
}

// Progress hears of the step that is under way, and how far it has come.
type Progress func(step string, done, all int)

// readEntry reads the entry.
func (j *change) readEntry(ctx context.Context) (err error) {
	if j.entry, j.seq, err = store.ReadEntry(ctx, j.out, j.name); err == nil && j.seq == 0 {
		err = fmt.Errorf("pipeline: job %q: %w", j.name, ErrNotBegun)
	}
	return err
}

// note writes what the entry is to say of the partitions, if nobody wrote since
// it was read.
func (j *change) note(ctx context.Context, r wire.Resize) error {
	if err := j.before("note " + string(r.Step)); err != nil {
		return err
	}
	e := j.entry
	e.Resize = r
	return j.write(ctx, e)
}

// write puts an entry in the place of the one that was read.
func (j *change) write(ctx context.Context, e wire.Entry) error {
	taken, err := store.WriteEntry(ctx, j.js, &e, j.name, j.seq)
	if now, seq, readErr := store.ReadEntry(ctx, j.out, j.name); readErr == nil && now.Resize == e.Resize { // also where the answer was lost
		j.entry, j.seq = now, seq
		return nil
	}
	if taken {
		return fmt.Errorf("pipeline: job %q: %w", j.name, ErrMeanwhile)
	}
	return err
}

// before is called before a step's change of the job is written. Only tests set the hook.
func (j *change) before(what string) error {
	if j.hook == nil {
		return nil
	}
	return j.hook(what)
}

// report tells the caller how far a step has come.
func (j *change) report(step wire.ResizeStep, done, all int) {
	if j.progress != nil {
		j.progress(string(step), done, all)
	}
}

// resize brings the job to so many partitions, or continues with that where it
// was left. It returns what the entry says then.
func (j *change) resize(ctx context.Context, to int) (wire.Resize, error) {
	if err := j.readEntry(ctx); err != nil {
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
		if err := checkNoReaders(ctx, j.js, j.name); err != nil {
			return r, err
		}
		if err := checkIdle(ctx, j.js, j.job); err != nil {
			return r, err
		}
		if err := j.note(ctx, wire.Resize{Generation: r.Generation, Partitions: now, To: to, Step: wire.ResizeClaim}); err != nil {
			return r, err
		}
	} else if r.Abandoning() || r.With != "" || r.To != to {
		return r, underWay(j.name, r)
	}
	for _, step := range []struct {
		is wire.ResizeStep
		do func(context.Context) error
	}{
		{wire.ResizeClaim, j.claim}, {wire.ResizeSwitch, j.switchMapping}, {wire.ResizeDrain, j.drain},
		{wire.ResizeStore, j.redistribute}, {wire.ResizePublish, j.publish},
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
func (j *change) sweep(ctx context.Context) {
	r := j.entry.Resize
	if r.UnderWay() || r.Generation == 0 {
		return
	}
	if err := j.snaps.SweepUnused(ctx, r.Partitions, func() error { return j.unchanged(ctx) }, j.log); err != nil {
		j.log.Warn("states of partitions that are not used any more stay on disk: the same command deletes them", "err", err)
	}
}

// look is what a job's partitions are, and how far a change has come.
func (j *change) look(ctx context.Context) (wire.Resize, error) {
	if err := j.readEntry(ctx); err != nil {
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
func (j *change) mapped(ctx context.Context) (int, error) {
	now, err := store.Open(ctx, j.js, j.name)
	if err != nil {
		return 0, err
	}
	return now.Partitions, nil
}

// claim takes the partitions from all workers, those that are asleep included:
// the server refuses what they commit, and they refuse the records.
func (j *change) claim(ctx context.Context) error {
	r := j.entry.Resize
	if err := checkNoReaders(ctx, j.js, j.name); err != nil { // since it began
		return err
	}
	if err := j.claimAll(ctx); err != nil {
		return err
	}
	info, err := j.in.Info(ctx, 0)
	if err != nil {
		return err
	}
	if _, err = j.copies(ctx, info.State.LastSeq); err != nil { // what a copy lacks yet, it would give to new partitions
		return err
	}
	r.Step, r.After = wire.ResizeSwitch, info.State.LastSeq
	return j.note(ctx, r)
}

// claimAll raises the generation of all records.
func (j *change) claimAll(ctx context.Context) error {
	r := j.entry.Resize
	info, err := j.in.Info(ctx, 0)
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
		j.report(r.Step, p+1, r.Partitions)
	}
	return nil
}

// begun refuses a partition that has snapshots, but no record: it has lost that.
func (j *change) begun(ctx context.Context, p int) error {
	_, seq, err := store.ReadRecord(ctx, j.out, j.name, p)
	if err != nil || seq > 0 {
		return err
	}
	all, err := j.snaps.Entries(ctx, p)
	if err == nil && slices.ContainsFunc(all, func(e store.SnapshotEntry) bool { return e.Epoch > 0 }) {
		err = fmt.Errorf("pipeline: partition %d of job %q has snapshots, but no record: %w: restore %s first", p, j.name, store.ErrRecordLost, wire.OutputStream(j.name))
	}
	return err
}

// drain has the old partitions answer what is theirs.
func (j *change) drain(ctx context.Context) error {
	r := j.entry.Resize
	if r.Mixed {
		var err error
		if j.in.Mixed, err = j.in.ReadMixed(ctx, r.After, r.Cut, r.Partitions, r.To); err != nil {
			return err
		}
		defer func() { j.in.Mixed = nil }()
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
func (j *change) drainOwn(ctx context.Context) error {
	r := j.entry.Resize
	return drainUntil(ctx, j.drained, func(ctx context.Context) error {
		return j.answer(ctx, j.job, pipeline.Drain{Partitions: r.Partitions, Generation: r.Generation + 1, To: r.Cut, Mixed: j.in.Mixed})
	})
}

// answer drains the partitions of one of the jobs.
func (j *change) answer(ctx context.Context, job *pipeline.Job, d pipeline.Drain) error {
	w := pipeline.Worker{Job: *job}
	return w.Drain(ctx, d, func(done, all int) { j.report(j.entry.Resize.Step, done, all) })
}

// drainUntil drains until all is drained.
func drainUntil(ctx context.Context, drained, drain func(context.Context) error) error {
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
func (j *change) free(ctx context.Context) (epoch uint64, err error) {
	r := j.entry.Resize
	for p := range max(r.Partitions, r.To) {
		now, _, err := store.ReadRecord(ctx, j.out, j.name, p)
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
func (j *change) drained(ctx context.Context) error {
	r := j.entry.Resize
	for p := range r.Partitions {
		now, _, err := store.ReadRecord(ctx, j.out, j.name, p)
		if err != nil {
			return err
		}
		next, err := j.in.Next(ctx, p, now.InSeq)
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
