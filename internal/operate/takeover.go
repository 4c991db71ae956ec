package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// other is a parallel reader of a job's input, with the job's future network and states.
// This parallel job is not changed, and may continue to predict.
type other struct {
	job   *pipeline.Job
	name  string
	in    *store.Input // as the other job reads it
	out   jetstream.Stream
	snaps *store.Snapshots
	shape state.Shape
	entry wire.Entry
	empty []byte // a message without predictions
}

// replaceNetwork makes the job continue with the network and the states of another job,
// or continues an interrupted change: up to a cut, both jobs answer their input; then the
// other's states become this job's, positioned at the cut. The result is the cut, or 0
// before a cut.
func (j *change) replaceNetwork(ctx context.Context, by *other) (cut uint64, err error) {
	if err := j.noteReplace(ctx, by); err != nil {
		return 0, err
	}
	was := j.shape
	j.shape = by.shape // of the states stored from now on
	for j.entry.Resize.UnderWay() && err == nil {
		switch j.entry.Resize.Step {
		case wire.ReplaceClaim:
			err = j.takeOver(ctx)
		case wire.ReplaceDrain:
			err = j.drainBoth(ctx, by)
		case wire.ReplaceStore:
			err = j.adoptStates(ctx, by, was)
		default:
			cut = j.entry.Resize.Cut
			err = j.continueWith(ctx, by)
		}
	}
	return cut, err
}

// noteReplace writes the change into the job's entry, unless present.
func (j *change) noteReplace(ctx context.Context, by *other) error {
	if err := j.readEntry(ctx); err != nil {
		return err
	}
	r := j.entry.Resize
	if r.UnderWay() {
		if r.Abandoning() || r.With != by.name {
			return underWay(j.name, r)
		}
		return nil
	}
	now, err := j.mappedPartitions(ctx)
	if err == nil {
		err = checkIdle(ctx, j.js, j.job, by.job)
	}
	if err == nil {
		err = j.noteStep(ctx, wire.Resize{Generation: r.Generation, Partitions: now, To: now, With: by.name, Step: wire.ReplaceClaim})
	}
	return err
}

// takeOver takes the partitions from all workers.
func (j *change) takeOver(ctx context.Context) error {
	if err := j.claimAll(ctx); err != nil {
		return err
	}
	r := j.entry.Resize
	r.Step = wire.ReplaceDrain
	return j.noteStep(ctx, r)
}

// drainBoth makes both jobs answer their input up to a cut, the last existing message.
// Each attempt sets a new cut.
func (j *change) drainBoth(ctx context.Context, by *other) error {
	if err := checkNoWorkers(ctx, j.js, by.name); err != nil {
		return err
	}
	r := j.entry.Resize
	var err error
	if r.Cut, err = j.furthestInput(ctx, by); err != nil {
		return err
	}
	if r.Cut, r.Stored, err = j.storedAt(ctx, r.Cut); err != nil {
		return err
	}
	if err := j.noteStep(ctx, r); err != nil {
		return err
	}
	if err := j.drainOwn(ctx); err != nil {
		return err
	}
	err = drainUntil(ctx, func(ctx context.Context) error { return by.checkDrained(ctx, r) }, func(ctx context.Context) error {
		return j.answerInput(ctx, by.job, bridge.Drained{Partitions: r.Partitions, Generation: by.entry.Resize.Generation, To: r.Cut, Source: by.entry.Source})
	})
	if err != nil {
		return err
	}
	if r.Epoch, err = j.findEpoch(ctx); err != nil {
		return err
	}
	r.Step, r.Promoted = wire.ReplaceStore, j.entry.Promotions.Last().Number
	for p := range r.Partitions {
		now, _, err := store.ReadRecord(ctx, j.out, j.name, p)
		if err != nil {
			return err
		}
		r.Promoted = max(r.Promoted, now.Promoted.Known)
	}
	return j.noteStep(ctx, r)
}

// furthestInput returns the last input message, even if the answering server does not
// know the newest answered message yet.
func (j *change) furthestInput(ctx context.Context, by *other) (uint64, error) {
	var last uint64
	for p := range j.entry.Resize.Partitions {
		for _, from := range []held{{name: j.name, out: j.out}, {name: by.name, out: by.out}} {
			now, _, err := store.ReadRecord(ctx, from.out, from.name, p)
			if err != nil {
				return 0, err
			}
			last = max(last, now.InSeq)
		}
	}
	info, err := j.in.Info(ctx, last)
	if err != nil {
		return 0, err
	}
	return max(last, info.State.LastSeq), nil
}

// checkDrained reports input without an answer or a stored state of the parallel job, or
// a parallel job beyond the cut.
func (o *other) checkDrained(ctx context.Context, r wire.Resize) error {
	for p := range r.Partitions {
		now, _, err := store.ReadRecord(ctx, o.out, o.name, p)
		if err != nil {
			return err
		}
		next, err := o.in.Next(ctx, p, now.InSeq)
		switch {
		case err != nil:
			return fmt.Errorf("pipeline: input of partition %d: %w", p, err)
		case now.InSeq > r.Cut:
			return fmt.Errorf("pipeline: partition %d of job %q has answered input message %d, which is behind the cut, %d: a worker of that job runs: stop it, and run the command again", p, o.name, now.InSeq, r.Cut)
		case next.Seq > 0 && next.Seq <= r.Cut:
			return fmt.Errorf("pipeline: partition %d of job %q has not answered input message %d", p, o.name, next.Seq)
		case now.Kind != wire.KindReleased, now.SnapSeq != now.InSeq, now.Ahead > 0, now.InSeq > 0 && now.Snap == "":
			return fmt.Errorf("pipeline: the state of partition %d of job %q after input message %d is not stored", p, o.name, now.InSeq)
		}
	}
	return nil
}

// adoptStates stores the other job's states as this job's, next to the previous states,
// of shape was. If the parallel job has passed the cut meanwhile, a new cut is needed.
func (j *change) adoptStates(ctx context.Context, by *other, was state.Shape) error {
	r := j.entry.Resize
	if by.checkDrained(ctx, r) != nil {
		r.Step = wire.ReplaceDrain
		return j.noteStep(ctx, r)
	}
	for p := range r.Partitions {
		before, old, err := j.loadStates(ctx, held{by.name, by.out, by.snaps, by.shape}, []int{p})
		if err != nil {
			return err
		}
		_, own, err := j.loadStates(ctx, held{j.name, j.out, j.snaps, was}, []int{p})
		if err != nil {
			return err
		}
		doubt := len(old) == 0 && by.entry.Source.From > 1
		part, err := state.Adopt(old, p, wire.Place{Seq: r.Cut, Stored: r.Stored}, r.Promoted, doubt)
		if err != nil {
			return err
		}
		var moved digests
		if err := moved.addPartition(part); err != nil {
			return err
		}
		if part.Len() > j.largest {
			return fmt.Errorf("pipeline: partition %d of job %q has %d streams, but max streams (stage.max_streams) is %d: raise it (to stay), and run the command again", p, by.name, part.Len(), j.largest)
		}
		for _, known := range own { // the other job may have begun late
			part.CopyKnownKeys(known, &j.shape, j.largest)
		}
		var whole, after digests
		if err := whole.addPartition(part); err != nil {
			return err
		}
		if err := j.putState(ctx, part, &after); err != nil {
			return err
		}
		if moved != before || after != whole {
			return fmt.Errorf("pipeline: the keys of partition %d of job %q have the digest %v (%d streams), but %v (%d streams) after they were stored for job %q: this is a fault of the program or of the server's store; the states of before are untouched",
				p, by.name, before.Keys, before.Streams, after.Keys, after.Streams, j.name)
		}
		j.reportStep(r.Step, p+1, r.Partitions)
	}
	if r.Step = wire.ReplacePublish; by.checkDrained(ctx, r) != nil { // a worker began meanwhile: its record may be after the cut
		r.Step = wire.ReplaceDrain
	}
	return j.noteStep(ctx, r)
}

// continueWith writes the partitions' records with the adopted states, and the job's
// entry with the new network.
func (j *change) continueWith(ctx context.Context, by *other) error {
	if err := copyModels(ctx, j.js, by.name, j.name); err != nil {
		return err
	}
	r, next := j.entry.Resize, j.entry
	next.Identity, next.Arithmetic, next.Input, next.Meta = by.entry.Identity, by.entry.Arithmetic, by.entry.Input, by.entry.Meta
	next.Worker, next.Promotions, next.Shadows = j.workerName(), nil, "" // the old values belong to the previous network
	if r.Promoted > 0 {
		next.Promotions = next.Promotions.AppendPromotion(wire.Promotion{Number: r.Promoted, Who: "job replace --with " + by.name, When: time.Now().UTC().Truncate(time.Second)})
	}
	for _, p := range by.entry.Promotions {
		p.Number += r.Promoted
		next.Promotions = next.Promotions.AppendPromotion(p)
	}
	j.empty = by.empty
	return j.publishAs(ctx, next)
}
