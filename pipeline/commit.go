package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

const (
	surely = time.Second // an answer from the server is relied on this long; see committer.sure
)

// errFenced says that a partition belongs to another worker now.
var errFenced = errors.New("pipeline: another worker has claimed the partition")

// errUnsure is a commit that was not sent, because the output may have gone back
// to what it was before.
var errUnsure = errors.New("the connection broke after the last answer, or the last answer is old: reading the record first")

// errUnfinished says that a stop's time ran out before the server answered.
// Nothing is lost by it: what has no commit is computed again.
var errUnfinished = errors.New("pipeline: stopped before the server answered")

// committer is the only writer of a partition's output subject, whose last
// message is the partition's record. What keeps it the only one is the
// server's check that nothing was published in between. The check knows the
// last message by its number alone, and an output that went back gives a number
// a second time. So nothing is published unless the server has said a moment
// before, on the same connection, that the record is the one we know. It belongs
// to one goroutine at a time: first its ownership's, then the emitter's.
type committer struct {
	js      jetstream.JetStream
	stream  jetstream.Stream // the output NATS stream
	link    *store.Link      // of js and stream
	job     string
	part    int
	worker  string // of this run, to know our own messages
	ours    string // arithmetic of our engine, as in a record
	model   wire.Identity
	log     *slog.Logger
	retries func()
	begins  func(context.Context) error // nil, or asked before a partition without a record is begun
	waits   func(error) error           // told what the server did not do; see ownership.waits
	guard   safeguard

	wire.Record             // as last acknowledged; a claim's restore corrects it
	acked       wire.Record // as last acknowledged, to the letter
	begun       bool        // begins had nothing against it
	last        uint64      // sequence number of the message that says so; 0 = none
	heard       asked       // the question by whose answer we know that

	underWay
}

// underWay is a commit without an answer.
type underWay struct {
	msg    *nats.Msg
	next   wire.Record
	sent   asked
	future jetstream.PubAckFuture
}

// asked is when a question went to the server, and on which connection.
type asked struct {
	at         time.Time
	reconnects uint64
}

func (c *committer) ask() asked { return asked{time.Now(), c.js.Conn().Stats().Reconnects} }

// sure reports whether a record that the server has shown by its answer to q is
// still the last, unless another worker published after it in order. A server
// that comes back from before breaks every connection first. A cluster's leader
// may come back without that: then the time is too short for another worker to
// claim the partition and bring the numbers to where they were.
func (c *committer) sure(q asked) bool {
	now := c.ask()
	return now.reconnects == q.reconnects && now.at.Sub(q.at) < surely
}

// reassure reads the record again where it is not sure any more. Where the
// answer is another, or does not come, begin sends nothing and await finds out.
func (c *committer) reassure(ctx context.Context) {
	q := c.ask()
	if c.sure(c.heard) {
		return
	}
	if r, seq, err := c.read(ctx); err == nil && seq == c.last && r == c.acked {
		c.heard = q
	}
}

func (c *committer) subject() string { return wire.OutputSubject(c.job, c.part) }

// read returns the last record and its sequence number, 0 if there is none.
func (c *committer) read(ctx context.Context) (wire.Record, uint64, error) {
	ctx, cancel := c.link.Attempt(ctx)
	defer cancel()
	return store.ReadRecord(ctx, c.stream, c.job, c.part)
}

// claim makes the partition ours: it repeats the last record with the next
// epoch, provided nothing was published in between. Older owners' expectations
// are gone from then on. wait says whether to give the owner in the record
// time to release it. body is a message of no predictions. A record of another
// arithmetic or model than ours, or of a program whose states have another form,
// is left as it is.
func (c *committer) claim(ctx context.Context, body []byte, wait func(wire.Record) bool) error {
	var tried uint64 // the epoch of an attempt without an answer
	var gone missing
	for {
		q := c.ask()
		r, seq, err := c.read(ctx)
		switch {
		case errors.Is(err, wire.ErrRecord):
			return err
		case gone.confirmed(err):
			return lostStream(c.job, wire.OutputStream(c.job))
		case err != nil: // server away: ask again
		case seq > 0 && r.Worker == c.worker && r.Kind == wire.KindClaim && r.Epoch == tried:
			c.accept(r, seq, q)
			return nil
		case seq > 0 && !r.Continues(c.ours):
			return c.otherArithmetic(r)
		case seq > 0 && c.model.Differs(r.Identity) != "":
			return c.otherIdentity(r)
		case seq > 0 && r.OtherVersion() != nil:
			return fmt.Errorf("pipeline: the record on %s: %w", c.subject(), r.OtherVersion())
		case seq > 0 && wait(r):
		case seq == 0 && c.begins != nil && !c.begun:
			err = c.begins(ctx)
			if c.begun = err == nil; c.begun {
				continue
			}
			if errors.Is(err, errRecordLost) {
				return err
			}
		case !c.sure(q): // read it again
		default:
			r.Kind, r.Worker, r.Arithmetic, r.Identity = wire.KindClaim, c.worker, c.ours, c.model
			r.Epoch++
			tried = r.Epoch
			q = c.ask()
			var ack *jetstream.PubAck
			if ack, err = c.publish(ctx, r, seq, body); err == nil {
				c.accept(r, ack.Sequence, q)
				return nil
			}
		}
		if err != nil && c.waits != nil {
			if err := c.waits(err); err != nil {
				return err
			}
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return fmt.Errorf("pipeline: claim on %s: %w", c.subject(), err)
		}
	}
}

// overtaken says what a failure to restore means: where another worker has
// claimed the partition since, it may have replaced and deleted the very
// snapshot that was missing, and the failure is no more than being late. It
// asks until the server answers: a worker that was asleep so long has questions
// under way that ended meanwhile.
func (c *committer) overtaken(ctx context.Context, cause error) error {
	if c.last == 0 { // not claimed at all
		return cause
	}
	for {
		r, seq, err := c.read(ctx)
		switch {
		case err == nil && seq > c.last && r.Epoch > c.Epoch:
			return fmt.Errorf("%w: %s is at epoch %d of worker %s, ours was %d, and then: %v", errFenced, c.subject(), r.Epoch, r.Worker, c.Epoch, cause)
		case err == nil, errors.Is(err, wire.ErrRecord), store.Pause(ctx, store.RetryWait) != nil:
			return cause
		}
	}
}

// publish is not cut short by ctx: what was claimed must be known, to be given
// back.
func (c *committer) publish(ctx context.Context, r wire.Record, expect uint64, body []byte) (*jetstream.PubAck, error) {
	ctx, cancel := c.link.Attempt(context.WithoutCancel(ctx))
	defer cancel()
	return c.js.PublishMsg(ctx, c.message(r, expect, body), jetstream.WithRetryAttempts(0))
}

func (c *committer) message(r wire.Record, expect uint64, body []byte) *nats.Msg {
	m := &nats.Msg{Subject: c.subject(), Data: body, Header: r.Header()}
	c.guard.fence(m, r, expect)
	return m
}

// begin publishes predictions (body) with the record they lead to, if the
// record before it is sure. await must follow. body must not change until then.
func (c *committer) begin(body []byte, next wire.Record) {
	c.next = next
	c.msg = c.message(next, c.last, body)
	// A nil future means that it was not sent; await sees to it.
	if c.future = nil; c.sure(c.heard) {
		c.sent = c.ask()
		c.future, _ = c.js.PublishMsgAsync(c.msg, jetstream.WithRetryAttempts(0))
	}
}

// await returns when the commit is stored, or an error when it never can be:
// errFenced where another worker has the partition now, or what the server
// lost or refuses. While the server is away it waits, until ctx ends.
func (c *committer) await(ctx context.Context) error {
	var err error
	if c.future == nil {
		err = errUnsure
	} else {
		// The client answers for the server after commitTimeout. One whose
		// connection broke at a bad moment has been seen to answer never.
		late := time.NewTimer(2 * store.CommitTimeout)
		defer late.Stop()
		select {
		case ack := <-c.future.Ok():
			c.accept(c.next, ack.Sequence, c.sent)
			return nil
		case err = <-c.future.Err():
		case <-late.C:
			err = nats.ErrTimeout
		case <-ctx.Done():
			return fmt.Errorf("%w: commit on %s", errUnfinished, c.subject())
		}
	}
	return c.resolve(ctx, err)
}

// accept takes down what the server has stored: it says so in its answer to q.
func (c *committer) accept(r wire.Record, seq uint64, q asked) {
	c.Record, c.acked, c.last, c.heard, c.future = r, r, seq, q, nil
}

// resolve finds out what became of a commit without an answer: it reads the
// record and publishes again while the old one stands. The server's check
// lets at most one of the attempts in, even one that arrives late. A refusal
// alone proves nothing: a cluster's leader may refuse the right expectation
// for a moment.
func (c *committer) resolve(ctx context.Context, cause error) error {
	c.log.Warn("commit without an answer, asking the server", "subject", c.subject(), "input", c.next.InSeq, "err", cause)
	var staleSince time.Time
	var gone missing
	for {
		q := c.ask()
		r, seq, err := c.read(ctx)
		switch {
		case gone.confirmed(err):
			return lostStream(c.job, wire.OutputStream(c.job))
		case errors.Is(err, wire.ErrRecord):
			return err
		case errors.Is(err, nats.ErrConnectionClosed): // for good
			return fmt.Errorf("%w: commit on %s", errUnfinished, c.subject())
		case err != nil: // server away: ask again
		case seq > c.last && r == c.next:
			c.accept(r, seq, q)
			return nil
		case seq > c.last && c.guard.fenced():
			return fmt.Errorf("%w: %s is at epoch %d of worker %s, ours was %d", errFenced, c.subject(), r.Epoch, r.Worker, c.Epoch)
		case seq == c.last && r != c.acked && c.guard.fenced():
			return fmt.Errorf("%w: message %d on %s was written by this worker in epoch %d, and is now of worker %s in epoch %d: the output went back in time (a power failure? a restored backup?); its lost predictions are made again", errFenced, c.last, c.subject(), c.Epoch, r.Worker, r.Epoch)
		case seq < c.last:
			if staleSince.IsZero() {
				staleSince = time.Now()
			}
			if time.Since(staleSince) > store.StaleGrace {
				return fmt.Errorf("pipeline: %s: the server has lost acknowledged message %d, and with it what was predicted since: restore its store; without a backup restart, and what is lost is predicted once more", c.subject(), c.last)
			}
		case !c.sure(q) && c.guard.fenced(): // read it again
		default:
			staleSince = time.Time{}
			switch err = c.again(ctx); {
			case err == nil:
				return nil
			case permanent(err) && !errors.Is(err, nats.ErrConnectionClosed):
				return fmt.Errorf("pipeline: commit on %s refused: %w: undo what was changed on %s, or give it and its account room: %w", c.subject(), err, wire.OutputStream(c.job), store.ErrLater)
			}
		}
		if err != nil {
			cause = err
		}
		if c.waits != nil {
			if err := c.waits(cause); err != nil {
				return err
			}
		}
		if store.Pause(ctx, store.RetryWait) != nil {
			return fmt.Errorf("%w: commit on %s", errUnfinished, c.subject())
		}
	}
}

// again publishes the same message once more.
func (c *committer) again(ctx context.Context) error {
	c.retries()
	ctx, cancel := c.link.Attempt(ctx)
	defer cancel()
	q := c.ask()
	ack, err := c.js.PublishMsg(ctx, c.msg, jetstream.WithRetryAttempts(0))
	if err == nil {
		c.accept(c.next, ack.Sequence, q)
	}
	return err
}

// permanent reports whether publishing again can never succeed. A refused
// expectation is not an error by itself: the record decides.
func permanent(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 400 && !store.OvertakenBy(err)
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed)
}
