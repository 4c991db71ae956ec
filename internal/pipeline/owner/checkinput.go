package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// checkInput compares the input with the record, and decides where the replay begins.
func (t *Ownership) checkInput(ctx context.Context) error {
	c, p, name := t.c, t.part, t.w.Server.In.Name()
	info, err := t.w.Server.In.Info(ctx, c.Record.InSeq)
	if err != nil {
		return err
	}
	created := wire.CreatedText(info.Created)
	if c.Record.Created != "" && c.Record.Created != created {
		return fmt.Errorf("pipeline: the record on %s belongs to an input created %s, but %s was created %s: it was deleted and created again, or the server did not load it; %s",
			c.Subject(), c.Record.Created, name, created, store.LostTrack(t.w.Server.In.Job))
	}
	c.Record.Created = created
	p.State.Answered = state.Answered{ReplayTo: c.Record.InSeq, Skip: c.Record.Ahead}
	p.State.Want = state.Expected{At: c.Record.Mark.Seq, Digest: c.Record.Mark.Digest}
	in := info.State
	t.first = in.FirstSeq
	switch {
	case in.LastSeq < c.Record.InSeq:
		return fmt.Errorf("pipeline: %s ends at message %d, but according to the record on %s message %d was processed: the input lost its last messages; restore its store, or start a new job",
			name, in.LastSeq, c.Subject(), c.Record.InSeq)
	case c.Record.InSeq > c.Record.SnapSeq && in.FirstSeq > c.Record.InSeq:
		return fmt.Errorf("pipeline: %s begins at message %d, but partition %d needs those from %d to %d to rebuild its state: restore its store, or start a new job; from then on keep more input (max_age, max_bytes) than arrives between two snapshots",
			name, in.FirstSeq, p.State.ID, c.Record.SnapSeq+1, c.Record.InSeq)
	}
	if p.State.Losses, err = state.ParseLosses(c.Record.Losses); err != nil {
		return fmt.Errorf("pipeline: the record on %s: header %s is %q: %w", c.Subject(), wire.HeaderLosses, c.Record.Losses, err)
	}
	if c.Record.Ahead > 0 && c.Record.Rests.Seq > 0 && in.FirstSeq > c.Record.Rests.Seq {
		p.State.Skip, c.Record.Ahead = 0, 0 // the predictions belong to one message, which is gone
	}
	v := &t.Input
	v.replayed, v.rests = c.Record.InSeq, c.Record.Rests.Seq
	p.Answered.Store(c.Record.InSeq)
	if c.Record.EmptyTo > 0 && c.Record.EmptyTo <= in.LastSeq { // otherwise the input has gone back since the record, and EmptyTo is invalid
		v.empty.Store(&state.Interval{From: c.Record.InSeq, To: c.Record.EmptyTo})
		v.told.Store(c.Record.EmptyTo)
	}
	for _, at := range []wire.Place{{Seq: c.Record.Mark.Seq, Stored: c.Record.Mark.Time}, c.Record.Rests} {
		if err := t.w.Server.In.CheckUnchanged(ctx, p.State.ID, at); err != nil {
			return err
		}
		v.Came.Store(at)
	}
	return nil
}

// checkSameInput requires that the partition's last input message is unchanged in the
// input; otherwise the ownership ends. lost: input of the partition may have been lost
// between that message and the message received now.
func (t *Ownership) checkSameInput(next wire.Place) (lost, same bool) {
	if t.w.Trusting {
		return false, true
	}
	at := t.Input.Came.Load()
	err := t.w.Server.In.CheckUnchanged(t.ctx, t.part.State.ID, at)
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = t.w.Server.In.Info(t.ctx, at.Seq)
	}
	if err != nil {
		if t.ctx.Err() == nil {
			t.Fail(err)
		}
		return false, false
	}
	lost = info.State.FirstSeq > t.Input.knownLast()+1
	t.Input.Doubt.Store(info.State.FirstSeq > next.Seq+1 || store.Overtakes(info, next, doubtLeases*t.w.Lease))
	return lost, true
}

// checkUnanswered refuses to begin a partition that may have begun before: the job's
// entry existed and is gone with all records, or the partition has snapshots but no
// record. Imported snapshots (epoch 0) precede the record.
func (t *Ownership) checkUnanswered(ctx context.Context) error {
	try, cancel := t.w.Server.Link.Attempt(ctx)
	defer cancel()
	if t.w.Server.Entered {
		_, seq, err := store.ReadEntry(try, t.w.Server.Out, t.w.Job)
		if foreign := (*wire.ForeignError)(nil); err != nil && !errors.As(err, &foreign) {
			return err
		}
		if err == nil && seq == 0 {
			return store.EmptyOutput(t.w.Job, t.w.Server.In.Job)
		}
	}
	all, err := t.w.Server.Snaps.Entries(try, t.part.State.ID)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Epoch > 0 {
			return fmt.Errorf("pipeline: %s holds no record, but %s has a snapshot of the partition, %s: the record was removed, or lost with its NATS stream. Without it the stage would predict all input a second time, so the partition stops: %w: restore %s; without a backup, a new job can read the input of job %s",
				t.c.Subject(), t.w.Server.Snaps.Bucket, e.Name, store.ErrRecordLost, wire.OutputStream(t.w.Job), t.w.Server.In.Job)
		}
	}
	return nil
}
