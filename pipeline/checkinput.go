package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// checkInput compares the input with what the record says of it, and decides
// from where to replay.
func (t *tenure) checkInput(ctx context.Context) error {
	c, p, name := t.c, t.part, inputStream(t.cfg.Job)
	info, err := t.inputInfo(ctx, c.inSeq)
	if err != nil {
		return err
	}
	created := createdText(info.Created)
	if c.created != "" && c.created != created {
		return fmt.Errorf("pipeline: %s answers an input created %s, but %s was created %s: it was deleted and made anew, or its server did not find it; %s",
			c.subject(), c.created, name, created, lostTrack)
	}
	c.created = created
	p.replayTo, p.skip, p.verifyAt, p.want, p.wantVersion = c.inSeq, c.ahead, c.mark.seq, c.mark.digest, c.mark.version
	in := info.State
	t.first = in.FirstSeq
	switch {
	case in.LastSeq < c.inSeq:
		return fmt.Errorf("pipeline: %s ends at message %d, but %s answers message %d: the input lost its tail; restore its store, or start a new job",
			name, in.LastSeq, c.subject(), c.inSeq)
	case c.inSeq > c.snapSeq && in.FirstSeq > c.inSeq:
		return fmt.Errorf("pipeline: %s begins at message %d, but partition %d needs those from %d to %d to rebuild its state: keep more input (max_age, max_bytes) than is stored between two snapshots; restore its store, or start a new job",
			name, in.FirstSeq, p.id, c.snapSeq+1, c.inSeq)
	}
	if p.losses, err = parseLosses(c.losses); err != nil {
		return fmt.Errorf("pipeline: the record on %s: header %s is %q: %w", c.subject(), headerLosses, c.losses, err)
	}
	if c.ahead > 0 && c.rests.seq > 0 && in.FirstSeq > c.rests.seq {
		p.skip, c.ahead = 0, 0 // they are of one message, which will not come again
	}
	p.rests = c.rests.seq
	if c.emptyTo > 0 && c.emptyTo <= in.LastSeq { // else the input has gone back since, and it says nothing
		p.empty.Store(&interval{c.inSeq, c.emptyTo})
		p.told.Store(c.emptyTo)
	}
	for _, at := range []place{{c.mark.seq, c.mark.time}, c.rests} {
		if err := t.unchanged(ctx, p.id, at); err != nil {
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
func (r *run) unchanged(ctx context.Context, part int, at place) error {
	if at.seq == 0 {
		return nil
	}
	name := inputStream(r.cfg.Job)
	info, err := r.inputInfo(ctx, at.seq)
	switch {
	case err != nil:
		return err
	case info.State.LastSeq < at.seq:
		return fmt.Errorf("pipeline: %s ends at message %d, but partition %d has read message %d: the input lost its tail; %s", name, info.State.LastSeq, part, at.seq, otherHistory)
	case info.State.FirstSeq > at.seq:
		return nil
	}
	msg, err := r.inputMessage(ctx, at.seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		if info, err = r.inputInfo(ctx, at.seq); err == nil && info.State.FirstSeq <= at.seq { // it has not aged away meanwhile
			err = fmt.Errorf("pipeline: message %d of %s, which partition %d has read, was deleted: restore the store, or start a new job", at.seq, name, part)
		}
		return err
	}
	if err == nil && msg.Time.UnixNano() != at.stored {
		err = fmt.Errorf("pipeline: message %d of %s was stored %s, but partition %d has read one stored %s: the input is not the one it was (a restored backup? a power failure?); %s",
			at.seq, name, createdText(msg.Time), part, createdText(time.Unix(0, at.stored)), otherHistory)
	}
	return err
}

// lostTrack is what to do about a NATS stream that is not there, or is new.
const lostTrack = "look in the server's log for \"Missing stream checksum file\": if it says so, all is still there: stop the server, run eusn-stream doctor --repair STORE_DIR, and start both; else restore it from a backup; without one, a new job can answer what there is now"

// otherHistory is what to do about an input that went back.
const otherHistory = "nothing more is answered from it: restore the store that has these messages; without one, a restart goes on with the partitions that have answered nothing of what is lost, and a new job can answer the input as it is now"

// same makes sure that the last input message that the partition stands on is
// the one it was, and reports whether input of it may have been lost between
// that and the message that has come.
func (t *tenure) same(next place) (lost bool, err error) {
	if t.unasked() {
		return false, nil
	}
	at := t.part.came.load()
	if err := t.unchanged(t.ctx, t.part.id, at); err != nil {
		return false, err
	}
	info, err := t.inputInfo(t.ctx, at.seq)
	if err != nil {
		return false, err
	}
	lost = info.State.FirstSeq > t.part.knows()+1
	t.part.doubt.Store(info.State.FirstSeq > next.seq+1 || t.overtakes(info, next))
	return lost, nil
}

// inputMessage asks for an input message until the server answers.
func (r *run) inputMessage(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	for {
		try, cancel := r.link.attempt(ctx)
		msg, err := r.in.GetMsg(try, seq)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
			return msg, err
		}
		if err := pause(ctx, retryWait); err != nil {
			return nil, err
		}
	}
}

// inputInfo asks for the input's identity and range until the server answers,
// and gives a cluster's new leader time to know that it has message seq.
func (r *run) inputInfo(ctx context.Context, seq uint64) (*jetstream.StreamInfo, error) {
	var late time.Time
	for {
		try, cancel := r.link.attempt(ctx)
		info, err := r.in.Info(try)
		cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, lostStream(r.cfg.Job, inputStream(r.cfg.Job))
		}
		if err == nil {
			if late.IsZero() {
				late = time.Now().Add(staleGrace)
			}
			if info.State.LastSeq >= seq || info.Config.Replicas <= 1 || time.Now().After(late) {
				return info, nil
			}
		}
		if err := pause(ctx, retryWait); err != nil {
			return nil, err
		}
	}
}
