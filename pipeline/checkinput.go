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
	info, err := t.inputInfo(ctx)
	if err != nil {
		return err
	}
	c, p, name := t.c, t.part, inputStream(t.cfg.Job)
	created := createdText(info.Created)
	if c.created != "" && c.created != created {
		return fmt.Errorf("pipeline: %s answers an input created %s, but %s was created %s: it was deleted and made anew; use a new job name, or delete %s too",
			c.subject(), c.created, name, created, outputStream(t.cfg.Job))
	}
	c.created = created
	p.replayTo, p.skip, p.verifyAt, p.want, p.wantVersion = c.inSeq, c.ahead, c.mark.seq, c.mark.digest, c.mark.version
	in := info.State
	switch {
	case in.LastSeq < c.inSeq:
		return fmt.Errorf("pipeline: %s ends at message %d, but %s answers message %d: the input lost its tail; restore its store, or start a new job",
			name, in.LastSeq, c.subject(), c.inSeq)
	case c.inSeq > c.snapSeq && in.FirstSeq > c.inSeq:
		return fmt.Errorf("pipeline: %s begins at message %d, but partition %d needs those from %d to %d to rebuild its state: keep more input (max_age, max_bytes) than is stored between two snapshots; restore its store, or start a new job",
			name, in.FirstSeq, p.id, c.snapSeq+1, c.inSeq)
	case c.inSeq == 0 && in.FirstSeq > 1:
		p.lossy = true
		t.log.Warn("input does not begin with its first message: predictions of sequences that may lack samples are flagged as gaps", "partition", p.id, "first", in.FirstSeq)
	}
	if c.inSeq > 0 && in.FirstSeq > c.inSeq+1 {
		t.log.Warn("input behind the last answered message has aged away: if this partition had any there, nobody has read it; keys that number their messages are flagged", "partition", p.id, "answered", c.inSeq, "first", in.FirstSeq)
	}
	return t.checkMark(ctx, in.FirstSeq)
}

// checkMark makes sure that the input message the digest belongs to is the
// one it was: another time of storing means another history, a restored
// backup for instance. Once removed by age it cannot be asked for.
func (t *tenure) checkMark(ctx context.Context, first uint64) error {
	m := t.c.mark
	if m.seq < first || m.seq == 0 {
		return nil
	}
	msg, err := t.inputMessage(ctx, m.seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return fmt.Errorf("pipeline: message %d of %s, which partition %d has answered, was deleted: restore the store, or start a new job", m.seq, inputStream(t.cfg.Job), t.part.id)
	case err != nil:
		return err
	case msg.Time.UnixNano() != m.time:
		return fmt.Errorf("pipeline: message %d of %s was stored %s, but partition %d has answered one stored %s: the input is not the one it was (a restored backup?); restore the right one, or start a new job",
			m.seq, inputStream(t.cfg.Job), createdText(msg.Time), t.part.id, createdText(time.Unix(0, m.time)))
	}
	return nil
}

// inputMessage asks for an input message until the server answers.
func (t *tenure) inputMessage(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	for {
		try, cancel := t.link.attempt(ctx)
		msg, err := t.in.GetMsg(try, seq)
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
// and gives a cluster's new leader time to know its own end.
func (t *tenure) inputInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	var late time.Time
	for {
		try, cancel := t.link.attempt(ctx)
		info, err := t.in.Info(try)
		cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, fmt.Errorf("pipeline: NATS stream %s is gone: restore it, or delete %s too and begin anew", inputStream(t.cfg.Job), outputStream(t.cfg.Job))
		}
		if err == nil {
			if late.IsZero() {
				late = time.Now().Add(staleGrace)
			}
			if info.State.LastSeq >= t.c.inSeq || info.Config.Replicas <= 1 || time.Now().After(late) {
				return info, nil
			}
		}
		if err := pause(ctx, retryWait); err != nil {
			return nil, err
		}
	}
}
