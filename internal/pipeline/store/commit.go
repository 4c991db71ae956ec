package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	surely = time.Second // an answer from the server is relied on this long; see committer.sure
)

// ErrFenced says that a partition belongs to another worker now.
var ErrFenced = errors.New("pipeline: another worker has claimed the partition")

// ErrRecordLost is a partition that has begun, and has no record.
var ErrRecordLost = errors.New("it makes no predictions")

// errUnsure is a commit that was not sent, because the output may have gone back
// to what it was before.
var errUnsure = errors.New("the connection broke after the last answer, or the last answer is old")

// lostError is the loss of the record that the server has acknowledged. left is the message of
// the one that is there now, 0 for none.
func (c *Committer) lostError(left uint64) error {
	if left == 0 {
		return &LostError{fmt.Sprintf("%s: the server has lost acknowledged message %d, and no record of the partition is left", c.Subject(), c.Last), LostTrack(c.inputJob())}
	}
	return fmt.Errorf("pipeline: %s: the server has lost acknowledged message %d and all predictions after message %d: restore its store. Without a backup, restart: the partition continues from message %d and makes the lost predictions again", c.Subject(), c.Last, left, left)
}

// ErrUnfinished says that a stop's time ran out before the server answered.
// Nothing is lost by it: what has no commit is computed again.
var ErrUnfinished = errors.New("pipeline: stopped before the server answered")

// Committer is the only writer of a partition's output subject, whose last
// message is the partition's record. What keeps it the only one is the
// server's check that nothing was published in between. The check knows the
// last message by its number alone, and an output that went back gives a number
// a second time. So nothing is published unless the server has said a moment
// before, on the same connection, that the record is the one we know. It belongs
// to one goroutine at a time: first its ownership's, then the emitter's.
type Committer struct {
	JS     jetstream.JetStream
	Stream jetstream.Stream // the output NATS stream
	Link   *Link            // of js and stream
	Job    string
	// InputJob is whose input is read, if it is another job.
	InputJob string
	Part     int
	Worker   string // of this run, to know our own messages
	Ours     string // arithmetic of our engine, as in a record
	Model    wire.Identity
	// Generation is that of the records which are written, see wire.Resize.
	Generation uint64
	Log        *slog.Logger
	Retries    func()
	Refuses    func(wire.Record) error     // nil, or why a claim leaves a record as it is
	Begins     func(context.Context) error // nil, or asked before a partition without a record is begun
	Waits      func(error) error           // nil, or told what the server did not do; its error ends the attempts
	// Condition takes the place of the fence; only the fault harness sets it.
	Condition func(m *nats.Msg, r wire.Record)

	Record wire.Record // as last acknowledged; a claim's restore corrects it
	Last   uint64      // sequence number of the message that says so; 0 = none
	Heard  asked       // the question by whose answer we know that

	standing
	underWay
}

// standing is what a committer remembers of its partition.
type standing struct {
	acked wire.Record // as last acknowledged, to the letter
	begun asked       // when begins had nothing against it, and on which connection
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

// NoteAsked notes a question that goes to the server now.
func (c *Committer) NoteAsked() asked { return asked{time.Now(), c.JS.Conn().Stats().Reconnects} }

// IsSure reports whether a record that the server has shown by its answer to q is
// still the last, unless another worker published after it in order. A server
// that comes back from before breaks every connection first. A cluster's leader
// may come back without that: then the time is too short for another worker to
// claim the partition and bring the numbers to where they were.
func (c *Committer) IsSure(q asked) bool {
	now := c.NoteAsked()
	return now.reconnects == q.reconnects && now.at.Sub(q.at) < surely
}

// mayBegin reports whether begins has had nothing against the partition on the
// connection of question q. A server may come back without the output on the next
// connection, and the stream of a cluster on the same one.
func (c *Committer) mayBegin(q asked) bool {
	return !c.begun.at.IsZero() && c.begun.reconnects == q.reconnects && q.at.Sub(c.begun.at) < StaleGrace
}

// Reassure reads the record again where it is not sure any more. Where the
// answer is another, or does not come, begin sends nothing and await finds out.
func (c *Committer) Reassure(ctx context.Context) {
	q := c.NoteAsked()
	if c.IsSure(c.Heard) {
		return
	}
	if r, seq, err := c.Read(ctx); err == nil && seq == c.Last && r == c.acked {
		c.Heard = q
	}
}

// Subject is the partition's in the output.
func (c *Committer) Subject() string { return wire.OutputSubject(c.Job, c.Part) }

// Read returns the last record and its sequence number, 0 if there is none.
func (c *Committer) Read(ctx context.Context) (wire.Record, uint64, error) {
	ctx, cancel := c.Link.Attempt(ctx)
	defer cancel()
	return ReadRecord(ctx, c.Stream, c.Job, c.Part)
}

// inputJob is the job whose input is read.
func (c *Committer) inputJob() string { return cmp.Or(c.InputJob, c.Job) }

// ClaimPartition makes the partition ours: it repeats the last record with the next
// epoch, provided nothing was published in between. Older owners' expectations
// are gone from then on. wait says whether to give the owner in the record
// time to release it. body is a message of no predictions. A record that refuses
// has something against is left as it is.
func (c *Committer) ClaimPartition(ctx context.Context, body []byte, wait func(wire.Record) bool) error {
	var tried uint64 // the epoch of an attempt without an answer
	var gone missing
	for {
		q := c.NoteAsked()
		r, seq, err := c.Read(ctx)
		switch {
		case errors.Is(err, wire.ErrRecord):
			return err
		case gone.isConfirmed(err):
			return GoneOutput(c.Job, c.inputJob())
		case err != nil: // server away: ask again
		case seq > 0 && r.Worker == c.Worker && r.Kind == wire.KindClaim && r.Epoch == tried:
			c.Accept(r, seq, q)
			return nil
		case seq > 0 && c.checkRecord(r) != nil:
			return c.checkRecord(r)
		case seq > 0 && wait(r):
		case seq == 0 && c.Begins != nil && !c.mayBegin(q):
			if err = c.Begins(ctx); err == nil {
				c.begun = asked{time.Now(), q.reconnects}
				continue
			}
			if errors.Is(err, ErrRecordLost) {
				return err
			}
		case !c.IsSure(q): // read it again
		default:
			r.Kind, r.Worker, r.Arithmetic, r.Identity, r.Generation = wire.KindClaim, c.Worker, c.Ours, c.Model, c.Generation
			r.Epoch++
			tried = r.Epoch
			q = c.NoteAsked()
			var ack *jetstream.PubAck
			if ack, err = c.Publish(ctx, r, seq, body); err == nil {
				c.Accept(r, ack.Sequence, q)
				return nil
			}
		}
		if err != nil && c.Waits != nil {
			if err := c.Waits(err); err != nil {
				return err
			}
		}
		if err := Pause(ctx, RetryWait); err != nil {
			return fmt.Errorf("pipeline: claim on %s: %w", c.Subject(), err)
		}
	}
}

// CheckOvertaken says what a failure to restore means: where another worker has
// claimed the partition since, it may have replaced and deleted the very
// snapshot that was missing, and the failure is no more than being late. It
// asks until the server answers: a worker that was asleep so long has questions
// under way that ended meanwhile.
func (c *Committer) CheckOvertaken(ctx context.Context, cause error) error {
	if c.Last == 0 { // not claimed at all
		return cause
	}
	for {
		r, seq, err := c.Read(ctx)
		switch {
		case err == nil && seq > c.Last && r.Epoch > c.Record.Epoch:
			return fmt.Errorf("%w: %s is at epoch %d of worker %s, ours was %d, and then: %v", ErrFenced, c.Subject(), r.Epoch, r.Worker, c.Record.Epoch, cause)
		case err == nil, errors.Is(err, wire.ErrRecord), Pause(ctx, RetryWait) != nil:
			return cause
		}
	}
}

// Publish is not cut short by ctx: what was claimed must be known, to be given
// back.
func (c *Committer) Publish(ctx context.Context, r wire.Record, expect uint64, body []byte) (*jetstream.PubAck, error) {
	ctx, cancel := c.Link.Attempt(context.WithoutCancel(ctx))
	defer cancel()
	return c.JS.PublishMsg(ctx, c.newMessage(r, expect, body), jetstream.WithRetryAttempts(0))
}

func (c *Committer) newMessage(r wire.Record, expect uint64, body []byte) *nats.Msg {
	m := &nats.Msg{Subject: c.Subject(), Data: body, Header: r.Header()}
	if c.Condition != nil {
		c.Condition(m, r)
		return m
	}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expect, 10)}
	return m
}

// isFenced reports whether commits have the fence, so that a record that is not
// ours says that another worker has the partition.
func (c *Committer) isFenced() bool { return c.Condition == nil }

// checkRecord is why a claim leaves a record as it is.
func (c *Committer) checkRecord(r wire.Record) error {
	if c.Refuses == nil {
		return nil
	}
	return c.Refuses(r)
}

// BeginPublish publishes predictions (body) with the record they lead to, if the
// record before it is sure. await must follow. body must not change until then.
// besides are headers that are no part of the record: nobody compares them.
func (c *Committer) BeginPublish(body []byte, next wire.Record, besides wire.Header) {
	c.next = next
	c.msg = c.newMessage(next, c.Last, body)
	maps.Copy(c.msg.Header, besides)
	// A nil future means that it was not sent; await sees to it.
	if c.future = nil; c.IsSure(c.Heard) {
		c.sent = c.NoteAsked()
		c.future, _ = c.JS.PublishMsgAsync(c.msg, jetstream.WithRetryAttempts(0))
	}
}

// AwaitPublish returns when the commit is stored, or an error when it never can be:
// errFenced where another worker has the partition now, or what the server
// lost or refuses. While the server is away it waits, until ctx ends.
func (c *Committer) AwaitPublish(ctx context.Context) error {
	var err error
	if c.future == nil {
		err = errUnsure
	} else {
		// The client answers for the server after commitTimeout. One whose
		// connection broke at a bad moment has been seen to answer never.
		late := time.NewTimer(2 * CommitTimeout)
		defer late.Stop()
		select {
		case ack := <-c.future.Ok():
			c.Accept(c.next, ack.Sequence, c.sent)
			return nil
		case err = <-c.future.Err():
		case <-late.C:
			err = nats.ErrTimeout
		case <-ctx.Done():
			return fmt.Errorf("%w: commit on %s", ErrUnfinished, c.Subject())
		}
	}
	return c.resolveDoubt(ctx, err)
}

// Accept takes down what the server has stored: it says so in its answer to q.
func (c *Committer) Accept(r wire.Record, seq uint64, q asked) {
	c.Record, c.acked, c.Last, c.Heard, c.future = r, r, seq, q, nil
}

// resolveDoubt finds out what became of a commit without an answer: it reads the
// record and publishes again while the old one stands. The server's check
// lets at most one of the attempts in, even one that arrives late. A refusal
// alone proves nothing: a cluster's leader may refuse the right expectation
// for a moment.
func (c *Committer) resolveDoubt(ctx context.Context, cause error) error {
	if errors.Is(cause, errUnsure) {
		c.Log.Info("a commit waits: the server is asked for the partition's record first", "subject", c.Subject(), "input", c.next.InSeq, "why", cause)
	} else {
		c.Log.Warn("no answer to a commit, reading the partition's record to see whether it was stored", "subject", c.Subject(), "input", c.next.InSeq, "err", cause)
	}
	var staleSince time.Time
	var gone missing
	for {
		q := c.NoteAsked()
		r, seq, err := c.Read(ctx)
		switch {
		case gone.isConfirmed(err):
			return GoneOutput(c.Job, c.inputJob())
		case errors.Is(err, wire.ErrRecord):
			return err
		case errors.Is(err, nats.ErrConnectionClosed): // for good
			return fmt.Errorf("%w: commit on %s", ErrUnfinished, c.Subject())
		case err != nil: // server away: ask again
		case seq > c.Last && r == c.next:
			c.Accept(r, seq, q)
			return nil
		case seq > c.Last && c.isFenced():
			return fmt.Errorf("%w: %s is at epoch %d of worker %s, ours was %d", ErrFenced, c.Subject(), r.Epoch, r.Worker, c.Record.Epoch)
		case seq == c.Last && r != c.acked && c.isFenced():
			return fmt.Errorf("%w: message %d on %s was written by this worker in epoch %d, and is now of worker %s in epoch %d: the output went back in time (a power failure? a restored backup?); that worker makes the lost predictions again", ErrFenced, c.Last, c.Subject(), c.Record.Epoch, r.Worker, r.Epoch)
		case seq < c.Last:
			if staleSince.IsZero() {
				staleSince = time.Now()
			}
			if time.Since(staleSince) > StaleGrace {
				return c.lostError(seq)
			}
		case !c.IsSure(q) && c.isFenced(): // read it again
		default:
			staleSince = time.Time{}
			switch err = c.publishAgain(ctx); {
			case err == nil:
				return nil
			case isPermanent(err) && !errors.Is(err, nats.ErrConnectionClosed):
				return fmt.Errorf("pipeline: commit on %s refused: %w: undo what was changed on %s, or give it and its account more space: %w", c.Subject(), err, wire.OutputStream(c.Job), ErrLater)
			}
		}
		if err != nil {
			cause = err
		}
		if c.Waits != nil {
			if err := c.Waits(cause); err != nil {
				return err
			}
		}
		if Pause(ctx, RetryWait) != nil {
			return fmt.Errorf("%w: commit on %s", ErrUnfinished, c.Subject())
		}
	}
}

// publishAgain publishes the same message once more.
func (c *Committer) publishAgain(ctx context.Context) error {
	c.Retries()
	ctx, cancel := c.Link.Attempt(ctx)
	defer cancel()
	q := c.NoteAsked()
	ack, err := c.JS.PublishMsg(ctx, c.msg, jetstream.WithRetryAttempts(0))
	if err == nil {
		c.Accept(c.next, ack.Sequence, q)
	}
	return err
}

// isPermanent reports whether publishing again can never succeed. A refused
// expectation is not an error by itself: the record decides.
func isPermanent(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 400 && !OvertakenBy(err)
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed)
}
