package operate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// change is a change of a job without living workers: of the number of partitions, or of
// the network.
type change struct {
	job   *pipeline.Job
	name  string
	js    jetstream.JetStream
	in    *store.Input
	out   jetstream.Stream
	snaps *store.Snapshots
	log   *slog.Logger

	shape    state.Shape // of the drained states
	largest  int         // how many streams a partition may remember
	empty    []byte      // a message of none of the job's predictions
	progress Progress    // optional
	hook     func(what string) error

	entry wire.Entry
	seq   uint64 // of the entry
}

// Progress receives the current step and the progress.
type Progress func(step string, done, all int)

// readEntry reads the entry.
func (j *change) readEntry(ctx context.Context) (err error) {
	if j.entry, j.seq, err = store.ReadEntry(ctx, j.out, j.name); err == nil && j.seq == 0 {
		err = fmt.Errorf("pipeline: job %q: %w", j.name, ErrNotBegun)
	}
	return err
}

// noteStep writes the change into the entry, if the entry has not changed since it was
// read.
func (j *change) noteStep(ctx context.Context, r wire.Resize) error {
	if err := j.beforeWrite("note " + string(r.Step)); err != nil {
		return err
	}
	e := j.entry
	e.Resize = r
	return j.writeEntry(ctx, e)
}

// writeEntry replaces the last read entry.
func (j *change) writeEntry(ctx context.Context, e wire.Entry) error {
	seq, err := store.WriteEntry(ctx, j.js, j.out, &e, j.name, j.seq)
	if store.OvertakenBy(err) {
		err = ErrMeanwhile
	}
	if err != nil {
		return fmt.Errorf("pipeline: job %q: %w", j.name, err)
	}
	j.entry, j.seq = e, seq
	return nil
}

// beforeWrite is called before a step's change of the job is written. Only tests set the hook.
func (j *change) beforeWrite(what string) error {
	if j.hook == nil {
		return nil
	}
	return j.hook(what)
}

// reportStep reports the progress of a step to the caller.
func (j *change) reportStep(step wire.ResizeStep, done, all int) {
	if j.progress != nil {
		j.progress(string(step), done, all)
	}
}

// resizeJob changes the job to `to` partitions, or continues an interrupted change. It
// returns the change in the entry.
func (j *change) resizeJob(ctx context.Context, to int) (wire.Resize, error) {
	if err := j.readEntry(ctx); err != nil {
		return wire.Resize{}, err
	}
	r := j.entry.Resize
	if !r.UnderWay() {
		now, err := j.mappedPartitions(ctx)
		if err != nil {
			return r, err
		}
		if now == to {
			j.sweepUnused(ctx)
			return wire.Resize{Generation: r.Generation, Partitions: now}, nil
		}
		if err := checkNoReaders(ctx, j.js, j.name); err != nil {
			return r, err
		}
		if err := checkIdle(ctx, j.js, j.job); err != nil {
			return r, err
		}
		if err := j.noteStep(ctx, wire.Resize{Generation: r.Generation, Partitions: now, To: to, Step: wire.ResizeClaim}); err != nil {
			return r, err
		}
	} else if r.Abandoning() || r.With != "" || r.To != to {
		return r, underWay(j.name, r)
	}
	for _, step := range []struct {
		is wire.ResizeStep
		do func(context.Context) error
	}{
		{wire.ResizeClaim, j.claimPartitions}, {wire.ResizeSwitch, j.switchMapping}, {wire.ResizeDrain, j.drainInput},
		{wire.ResizeStore, j.redistributeKeys}, {wire.ResizePublish, j.publishRecords},
	} {
		if j.entry.Resize.Step != step.is {
			continue
		}
		if err := step.do(ctx); err != nil {
			return j.entry.Resize, err
		}
	}
	j.sweepUnused(ctx)
	return j.entry.Resize, nil
}

// sweepUnused deletes the stored data of removed partitions. Data that cannot be
// deleted now stays until the next change, or a repeated command.
func (j *change) sweepUnused(ctx context.Context) {
	r := j.entry.Resize
	if r.UnderWay() || r.Generation == 0 {
		return
	}
	if err := j.snaps.SweepUnused(ctx, r.Partitions, func() error { return j.checkUnchanged(ctx) }, j.log); err != nil {
		j.log.Warn("states of partitions that are not used any more stay on disk: the same command deletes them", "err", err)
	}
}

// readChange returns the partitions of a job, and the progress of a change.
func (j *change) readChange(ctx context.Context) (wire.Resize, error) {
	if err := j.readEntry(ctx); err != nil {
		return wire.Resize{}, err
	}
	r := j.entry.Resize
	var err error
	if r.Partitions == 0 {
		r.Partitions, err = j.mappedPartitions(ctx)
	}
	return r, err
}

// mappedPartitions is how many partitions the server gives keys to.
func (j *change) mappedPartitions(ctx context.Context) (int, error) {
	now, err := store.Open(ctx, j.js, j.name)
	if err != nil {
		return 0, err
	}
	return now.Partitions, nil
}

// claimPartitions takes the partitions from all workers, including suspended workers:
// the server refuses their commits, and they refuse the records.
func (j *change) claimPartitions(ctx context.Context) error {
	r := j.entry.Resize
	if err := checkNoReaders(ctx, j.js, j.name); err != nil { // since the change began
		return err
	}
	if err := j.claimAll(ctx); err != nil {
		return err
	}
	info, err := j.in.Info(ctx, 0)
	if err != nil {
		return err
	}
	if _, err = j.compareCopies(ctx, info.State.LastSeq); err != nil { // a lagging copy would assign messages to new partitions
		return err
	}
	r.Step, r.After = wire.ResizeSwitch, info.State.LastSeq
	return j.noteStep(ctx, r)
}

// claimAll raises the generation of all records.
func (j *change) claimAll(ctx context.Context) error {
	r := j.entry.Resize
	info, err := j.in.Info(ctx, 0)
	if err != nil {
		return err
	}
	for p := range r.Partitions {
		if err := j.checkBegun(ctx, p); err != nil {
			return err
		}
		err := j.rewriteRecord(ctx, p, func(now *wire.Record, seq uint64) bool {
			if now.Generation == r.Generation+1 {
				return false
			}
			if seq == 0 {
				*now = j.firstRecord(info.Created)
			}
			now.Kind, now.Generation = wire.KindClaim, r.Generation+1
			now.Epoch++
			return true
		})
		if err != nil {
			return err
		}
		j.reportStep(r.Step, p+1, r.Partitions)
	}
	return nil
}

// checkBegun refuses a partition with snapshots, but without a record: the record is
// lost.
func (j *change) checkBegun(ctx context.Context, p int) error {
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

// drainInput makes the old partitions answer their input.
func (j *change) drainInput(ctx context.Context) error {
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
	if r.Epoch, err = j.findEpoch(ctx); err != nil {
		return err
	}
	return j.noteStep(ctx, r)
}

// drainOwn has the job's partitions answer their input up to the cut.
func (j *change) drainOwn(ctx context.Context) error {
	r := j.entry.Resize
	return drainUntil(ctx, j.checkDrained, func(ctx context.Context) error {
		return j.answerInput(ctx, j.job, bridge.Drained{Partitions: r.Partitions, Generation: r.Generation + 1, To: r.Cut, Mixed: j.in.Mixed})
	})
}

// answerInput drains the partitions of a job.
func (j *change) answerInput(ctx context.Context, job *pipeline.Job, d bridge.Drained) error {
	return bridge.Drain(ctx, job, d, func(done, all int) { j.reportStep(j.entry.Resize.Step, done, all) })
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

// findEpoch returns an epoch without any record or snapshot.
func (j *change) findEpoch(ctx context.Context) (epoch uint64, err error) {
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

// drains is the number of attempts to drain: the first may wait for the lease of a
// killed drain.
const drains = 20

// claimRoom is how many epochs are left free before the epochs of the new partitions: a
// suspended drain may reclaim old partitions, and must not name a snapshot like theirs.
const claimRoom = 1000

// checkDrained reports input of the old partitions that is unanswered, or not in a
// snapshot.
func (j *change) checkDrained(ctx context.Context) error {
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
