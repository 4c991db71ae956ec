package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// checkInput compares the input with what the record says of it, and decides
// from where to replay.
func (t *ownership) checkInput(ctx context.Context) error {
	c, p, name := t.c, t.part, wire.InputStream(t.cfg.Job)
	info, err := t.inputInfo(ctx, c.InSeq)
	if err != nil {
		return err
	}
	created := wire.CreatedText(info.Created)
	if c.Created != "" && c.Created != created {
		return fmt.Errorf("pipeline: %s answers an input created %s, but %s was created %s: it was deleted and created again, or its server did not find it; %s",
			c.subject(), c.Created, name, created, lostTrack)
	}
	c.Created = created
	p.state.Answered = state.Answered{ReplayTo: c.InSeq, Skip: c.Ahead}
	p.state.Want = state.Expected{At: c.Mark.Seq, Digest: c.Mark.Digest, Version: c.Mark.Version}
	in := info.State
	t.first = in.FirstSeq
	switch {
	case in.LastSeq < c.InSeq:
		return fmt.Errorf("pipeline: %s ends at message %d, but %s answers message %d: the input lost its tail; restore its store, or start a new job",
			name, in.LastSeq, c.subject(), c.InSeq)
	case c.InSeq > c.SnapSeq && in.FirstSeq > c.InSeq:
		return fmt.Errorf("pipeline: %s begins at message %d, but partition %d needs those from %d to %d to rebuild its state: keep more input (max_age, max_bytes) than is stored between two snapshots; restore its store, or start a new job",
			name, in.FirstSeq, p.state.ID, c.SnapSeq+1, c.InSeq)
	}
	if p.state.Losses, err = state.ParseLosses(c.Losses); err != nil {
		return fmt.Errorf("pipeline: the record on %s: header %s is %q: %w", c.subject(), wire.HeaderLosses, c.Losses, err)
	}
	if c.Ahead > 0 && c.Rests.Seq > 0 && in.FirstSeq > c.Rests.Seq {
		p.state.Skip, c.Ahead = 0, 0 // they are of one message, which will not come again
	}
	p.rests = c.Rests.Seq
	if c.EmptyTo > 0 && c.EmptyTo <= in.LastSeq { // else the input has gone back since, and it says nothing
		p.empty.Store(&state.Interval{From: c.InSeq, To: c.EmptyTo})
		p.told.Store(c.EmptyTo)
	}
	for _, at := range []wire.Place{{Seq: c.Mark.Seq, Stored: c.Mark.Time}, c.Rests} {
		if err := t.unchanged(ctx, p.state.ID, at); err != nil {
			return err
		}
		p.came.store(at)
	}
	return nil
}

// unchanged makes sure, by the input's leader, that an input message is still
// the one that partition part has read: the input may have gone back to what it
// was before, as after a power failure or when a backup was put in its place,
// and may have grown beyond that message again. One that was removed from the
// input's beginning cannot be asked for, and passes.
func (r *run) unchanged(ctx context.Context, part int, at wire.Place) error {
	if at.Seq == 0 {
		return nil
	}
	name := wire.InputStream(r.cfg.Job)
	info, err := r.inputInfo(ctx, at.Seq)
	switch {
	case err != nil:
		return err
	case info.State.LastSeq < at.Seq:
		return fmt.Errorf("pipeline: %s ends at message %d, but partition %d has read message %d: the input lost its tail; %s", name, info.State.LastSeq, part, at.Seq, otherHistory)
	case info.State.FirstSeq > at.Seq:
		return nil
	}
	msg, err := r.inputMessage(ctx, at.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		if info, err = r.inputInfo(ctx, at.Seq); err == nil && info.State.FirstSeq <= at.Seq { // it has not aged away meanwhile
			err = fmt.Errorf("pipeline: message %d of %s, which partition %d has read, was deleted: restore the store, or start a new job", at.Seq, name, part)
		}
		return err
	}
	if err == nil && msg.Time.UnixNano() != at.Stored {
		err = fmt.Errorf("pipeline: message %d of %s was stored %s, but partition %d has read one stored %s: the input is not the one it was (a restored backup? a power failure?); %s",
			at.Seq, name, wire.CreatedText(msg.Time), part, wire.CreatedText(time.Unix(0, at.Stored)), otherHistory)
	}
	return err
}

// lostTrack is what to do about a NATS stream that is not there, or is new.
const lostTrack = "look in the server's log for \"Missing stream checksum file\": if it says so, all is still there: stop the server, run eusn-stream doctor --repair STORE_DIR, and start both; else restore it from a backup; without one, a new job can answer what there is now"

// otherHistory is what to do about an input that went back.
const otherHistory = "nothing more is predicted from this input: restore the store that has these messages; without a backup, restart: the partitions that had read none of the lost messages continue, and a new job can read the input as it is now"

// same makes sure that the last input message that the partition stands on is
// the one it was, and reports whether input of it may have been lost between
// that and the message that has come.
func (t *ownership) same(next wire.Place) (lost bool, err error) {
	if t.guard.trusting {
		return false, nil
	}
	at := t.part.came.load()
	if err := t.unchanged(t.ctx, t.part.state.ID, at); err != nil {
		return false, err
	}
	info, err := t.inputInfo(t.ctx, at.Seq)
	if err != nil {
		return false, err
	}
	lost = info.State.FirstSeq > t.part.knows()+1
	t.part.doubt.Store(info.State.FirstSeq > next.Seq+1 || t.overtakes(info, next))
	return lost, nil
}

// inputMessage asks for an input message until the server answers.
func (r *run) inputMessage(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	for {
		try, cancel := r.link.Attempt(ctx)
		msg, err := r.in.GetMsg(try, seq)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
			return msg, err
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return nil, err
		}
	}
}

// inputInfo asks for the input's identity and range until the server answers,
// and gives a cluster's new leader time to know that it has message seq.
func (r *run) inputInfo(ctx context.Context, seq uint64) (*jetstream.StreamInfo, error) {
	var late time.Time
	for {
		try, cancel := r.link.Attempt(ctx)
		info, err := r.in.Info(try)
		cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, lostStream(r.cfg.Job, wire.InputStream(r.cfg.Job))
		}
		if err == nil {
			if late.IsZero() {
				late = time.Now().Add(store.StaleGrace)
			}
			if info.State.LastSeq >= seq || info.Config.Replicas <= 1 || time.Now().After(late) {
				return info, nil
			}
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return nil, err
		}
	}
}
