package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	commitTimeout = 5 * time.Second        // an answer not here by then is asked for
	retryWait     = 100 * time.Millisecond // between attempts while the server is away
	staleGrace    = 10 * time.Second       // a deposed leader may answer from the past this long
)

// position is how far a partition has come.
type position struct {
	inSeq uint64 // last input message fully answered
	ahead uint64 // predictions published beyond it
	outs  uint64 // predictions published in all
}

// committer is the only writer of a partition's output subject, whose last
// message is the partition's position. What keeps it the only one is the
// server's check that nothing was published in between. It belongs to one
// emitter.
type committer struct {
	js      jetstream.JetStream
	stream  jetstream.Stream // the output NATS stream
	job     string
	part    int
	worker  string // of this run, to know our own messages
	created string // identity of the input NATS stream
	log     *slog.Logger
	retries func()

	position        // as last acknowledged
	last     uint64 // sequence number of the message that says so; 0 = none

	// the publish under way
	msg    *nats.Msg
	next   position
	future jetstream.PubAckFuture
}

// load reads the position from the server's leader.
func (c *committer) load(ctx context.Context) error {
	raw, pos, err := c.read(ctx)
	if err != nil {
		return err
	}
	if raw == nil {
		return nil
	}
	if got := raw.Header.Get(headerInCreated); got != c.created {
		return fmt.Errorf("pipeline: %s answers an input created %s, but %s was created %s: it was deleted and made anew; use a new job name, or delete %s too",
			c.subject(), got, inputStream(c.job), c.created, outputStream(c.job))
	}
	c.position, c.last = pos, raw.Sequence
	return nil
}

func (c *committer) subject() string { return outputSubject(c.job, c.part) }

// read returns the last message on the subject, nil if there is none.
func (c *committer) read(ctx context.Context) (*jetstream.RawStreamMsg, position, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	raw, err := c.stream.GetLastMsgForSubject(ctx, c.subject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, position{}, nil
	}
	if err != nil {
		return nil, position{}, fmt.Errorf("pipeline: position on %s: %w", c.subject(), err)
	}
	var pos position
	for h, v := range map[string]*uint64{headerInSeq: &pos.inSeq, headerAhead: &pos.ahead, headerOuts: &pos.outs} {
		if *v, err = strconv.ParseUint(raw.Header.Get(h), 10, 64); err != nil {
			return nil, position{}, fmt.Errorf("pipeline: message %d on %s: header %s is %q, want a number: something else publishes there", raw.Sequence, c.subject(), h, raw.Header.Get(h))
		}
	}
	return raw, pos, nil
}

// begin publishes predictions (body) and the position they lead to. await
// must follow. body must not change until then.
func (c *committer) begin(body []byte, next position) {
	id := fmt.Sprintf("%s.%d.%d", c.job, c.part, next.inSeq)
	if next.ahead > 0 {
		id = fmt.Sprintf("%s.%d", id, next.ahead)
	}
	c.next = next
	c.msg = &nats.Msg{Subject: c.subject(), Data: body, Header: nats.Header{
		headerKind:                          {"commit"},
		headerWorker:                        {c.worker},
		headerInSeq:                         {strconv.FormatUint(next.inSeq, 10)},
		headerAhead:                         {strconv.FormatUint(next.ahead, 10)},
		headerOuts:                          {strconv.FormatUint(next.outs, 10)},
		headerInCreated:                     {c.created},
		jetstream.MsgIDHeader:               {id},
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(c.last, 10)},
	}}
	// A nil future means that it could not even be sent; await sees to it.
	c.future, _ = c.js.PublishMsgAsync(c.msg, jetstream.WithRetryAttempts(0))
}

// await returns when the commit is stored, or an error when it never can be:
// another stage works on the partition, or the server lost what it had
// acknowledged. While the server is away it waits, until ctx ends.
func (c *committer) await(ctx context.Context) error {
	var err error
	if c.future == nil {
		err = nats.ErrDisconnected
	} else {
		select {
		case ack := <-c.future.Ok():
			if !ack.Duplicate { // a duplicate says nothing about what is stored now
				c.accept(ack.Sequence)
				return nil
			}
			err = errors.New("the server has seen this message before")
		case err = <-c.future.Err():
		case <-ctx.Done():
			return fmt.Errorf("pipeline: commit on %s: %w", c.subject(), ctx.Err())
		}
	}
	return c.resolve(ctx, err)
}

func (c *committer) accept(seq uint64) {
	c.position, c.last, c.future = c.next, seq, nil
}

// resolve finds out what became of a commit without an answer: it reads the
// position and publishes again while the old one stands. The server's check
// lets at most one of the attempts in, even one that arrives late.
func (c *committer) resolve(ctx context.Context, cause error) error {
	c.log.Warn("commit without an answer, asking the server", "subject", c.subject(), "input", c.next.inSeq, "err", cause)
	var staleSince time.Time
	for {
		raw, pos, err := c.read(ctx)
		switch {
		case err != nil: // server away: ask again
		case raw != nil && raw.Sequence > c.last:
			if raw.Header.Get(headerWorker) != c.worker || pos != c.next {
				return fmt.Errorf("pipeline: %s has moved on to input %d without us (worker %s): another stage runs job %q; stop one of them",
					c.subject(), pos.inSeq, raw.Header.Get(headerWorker), c.job)
			}
			c.accept(raw.Sequence)
			return nil
		case raw == nil && c.last > 0 || raw != nil && raw.Sequence < c.last:
			if staleSince.IsZero() {
				staleSince = time.Now()
			}
			if time.Since(staleSince) > staleGrace {
				return fmt.Errorf("pipeline: %s: the server has lost acknowledged message %d; restore its store, or start a new job", c.subject(), c.last)
			}
		default:
			staleSince = time.Time{}
			if done, err := c.again(ctx); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pipeline: commit on %s: %w", c.subject(), ctx.Err())
		case <-time.After(retryWait):
		}
	}
}

// again publishes the same message once more.
func (c *committer) again(ctx context.Context) (done bool, err error) {
	c.retries()
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	// Without its id: within the server's duplicate window an earlier attempt
	// that was refused must not answer for this one.
	c.msg.Header.Del(jetstream.MsgIDHeader)
	ack, err := c.js.PublishMsg(ctx, c.msg, jetstream.WithRetryAttempts(0))
	switch {
	case err == nil:
		c.accept(ack.Sequence)
		return true, nil
	case permanent(err):
		return false, fmt.Errorf("pipeline: commit on %s refused: %w", c.subject(), err)
	}
	return false, nil
}

// permanent reports whether publishing again can never succeed. A refused
// expectation is not an error by itself: the position decides.
func permanent(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 400 && api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence &&
			api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequenceConstant
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed)
}

// publishOnce publishes a message with an id until the server has it, for
// messages whose order does not matter.
func publishOnce(ctx context.Context, js jetstream.JetStream, msg *nats.Msg, retries func()) error {
	for {
		try, cancel := context.WithTimeout(ctx, commitTimeout)
		_, err := js.PublishMsg(try, msg)
		cancel()
		if err == nil {
			return nil
		}
		if permanent(err) || ctx.Err() != nil {
			return fmt.Errorf("pipeline: publish on %s: %w", msg.Subject, err)
		}
		retries()
		select {
		case <-ctx.Done():
		case <-time.After(retryWait):
		}
	}
}
