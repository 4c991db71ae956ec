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

// ErrFenced reports that another worker owns the partition now.
var ErrFenced = errors.New("pipeline: another worker has claimed the partition")

// ErrRecordLost reports a partition that has begun, and has no record.
var ErrRecordLost = errors.New("it makes no predictions")

// errUnsure reports an unsent commit, because the output may have gone back to an
// earlier state.
var errUnsure = errors.New("the connection broke after the last answer, or the last answer is old")

// lostError reports the loss of an acknowledged record. left is the number of the
// current last message, 0 for none.
func (c *Committer) lostError(left uint64) error {
	if left == 0 {
		return &LostError{fmt.Sprintf("%s: the server has lost acknowledged message %d, and no record of the partition is left", c.Subject(), c.Last), c.inputJob()}
	}
	return fmt.Errorf("pipeline: %s: the server has lost acknowledged message %d and all predictions after message %d: restore its store. Without a backup, restart: the partition continues from message %d and makes the lost predictions again", c.Subject(), c.Last, left, left)
}

// ErrUnfinished reports that a stop's time ran out before the server answered. Nothing
// is lost: uncommitted work is recomputed.
var ErrUnfinished = errors.New("pipeline: stopped before the server answered")

// Committer is the only writer of a partition's output subject. The subject's last
// message is the partition's record. The server's check for messages published in
// between ensures a single writer. The check identifies the last message only by its
// number, and an output that went back reuses numbers. So a commit is published only if
// the server has recently confirmed the record, on the same connection. A committer
// belongs to one goroutine at a time: first its ownership's, then the emitter's.
type Committer struct {
	JS     jetstream.JetStream
	Stream jetstream.Stream // the output NATS stream
	Link   *Link            // of js and stream
	Job    string
	// InputJob is the job with the input, if the input is another job's.
	InputJob string
	Part     int
	Worker   string // name in this run, to recognize own messages
	Ours     string // arithmetic of our engine, as in a record
	Model    wire.Identity
	// Generation is the generation of written records, see wire.Resize.
	Generation uint64
	Log        *slog.Logger
	Retries    func()
	Refuses    func(wire.Record) error     // nil, or the reason for a claim to leave a record unchanged
	Begins     func(context.Context) error // nil, or asked before a partition without a record is begun
	Waits      func(error) error           // nil, or called after a request without success; its error ends the attempts
	// Condition replaces the fence; only the fault harness sets it.
	Condition func(m *nats.Msg, r wire.Record)

	Record wire.Record // as last acknowledged; a claim's restore corrects it
	Last   uint64      // sequence number of the record's message; 0 = none
	Heard  asked       // the request whose answer confirmed the record

	standing
	underWay
}

// standing is a committer's memory of the partition.
type standing struct {
	acked wire.Record // as last acknowledged, to the letter
	begun asked       // the request by which begins accepted the partition
}

// underWay is a commit without an answer.
type underWay struct {
	msg    *nats.Msg
	next   wire.Record
	sent   asked
	future jetstream.PubAckFuture
}

// asked is the time and the connection of a request to the server.
type asked struct {
	at         time.Time
	reconnects uint64
}

// NoteAsked records the time and connection of a request sent now.
func (c *Committer) NoteAsked() asked { return asked{time.Now(), c.JS.Conn().Stats().Reconnects} }

// IsSure reports whether a record confirmed by the server's answer to q is still the
// last, unless another worker published after it in order. A server that returns to an
// earlier state breaks every connection first. A cluster's leader may return without a
// break: the time limit is then too short for another worker to claim the partition and
// advance the numbers to the same value.
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

// Reassure re-reads an uncertain record. If the answer differs, or does not come,
// BeginPublish sends nothing and AwaitPublish resolves the doubt.
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

// Read returns the last record and the record's sequence number, 0 without a record.
func (c *Committer) Read(ctx context.Context) (wire.Record, uint64, error) {
	ctx, cancel := c.Link.Attempt(ctx)
	defer cancel()
	return ReadRecord(ctx, c.Stream, c.Job, c.Part)
}

// inputJob returns the job with the input.
func (c *Committer) inputJob() string { return cmp.Or(c.InputJob, c.Job) }

// errLateAnswer is the reason to read a record again before a claim.
var errLateAnswer = fmt.Errorf("the server's answer with the last record took %v or more, or the connection was lost: the record may have changed, and is read again", surely)

// ClaimPartition claims the partition: it publishes the last record with the next
// epoch, provided no message was published in between. Expectations of older owners
// fail from then on. wait decides whether to give the recorded owner time to release
// the partition. body is a message without predictions. A record that Refuses rejects
// stays unchanged.
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
		case err != nil: // server unavailable: retry
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
		case !c.IsSure(q):
			err = errLateAnswer
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

// CheckOvertaken interprets a failed restore: if another worker has claimed the
// partition meanwhile, that worker may have replaced and deleted the missing snapshot,
// and the failure only means that this worker is late. It retries until the server
// answers: after a long suspension of the worker, requests in flight fail.
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

// Publish is not canceled by ctx: a claim's result must be known, to release the claim.
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

// isFenced reports whether commits have the fence, so that a foreign record means:
// another worker owns the partition.
func (c *Committer) isFenced() bool { return c.Condition == nil }

// checkRecord returns the reason for a claim to leave a record unchanged.
func (c *Committer) checkRecord(r wire.Record) error {
	if c.Refuses == nil {
		return nil
	}
	return c.Refuses(r)
}

// BeginPublish publishes predictions (body) with the next record, if the current record
// is sure. AwaitPublish must follow. body must not change until then. besides are
// headers that are no part of the record: they are not compared.
func (c *Committer) BeginPublish(body []byte, next wire.Record, besides wire.Header) {
	c.next = next
	c.msg = c.newMessage(next, c.Last, body)
	maps.Copy(c.msg.Header, besides)
	// A nil future means: nothing was sent; AwaitPublish handles it.
	if c.future = nil; c.IsSure(c.Heard) {
		c.sent = c.NoteAsked()
		c.future, _ = c.JS.PublishMsgAsync(c.msg, jetstream.WithRetryAttempts(0))
	}
}

// AwaitPublish returns when the commit is stored, or an error when storage is
// impossible: ErrFenced if another worker owns the partition now, or the server's loss
// or refusal. While the server is unavailable, AwaitPublish waits until ctx ends.
func (c *Committer) AwaitPublish(ctx context.Context) error {
	var err error
	if c.future == nil {
		err = errUnsure
	} else {
		// The client times out after CommitTimeout. After a connection broke at a bad
		// moment, a client that never answered was observed.
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

// Accept records the stored record, confirmed by the server's answer to q.
func (c *Committer) Accept(r wire.Record, seq uint64, q asked) {
	c.Record, c.acked, c.Last, c.Heard, c.future = r, r, seq, q, nil
}

// resolveDoubt finds out the result of a commit without an answer: it reads the record
// and republishes while the old record is the last. The server's check accepts at most
// one of the attempts, even a late attempt. A refusal by itself proves nothing: a
// cluster's leader may briefly refuse the right expectation.
func (c *Committer) resolveDoubt(ctx context.Context, cause error) error {
	if errors.Is(cause, errUnsure) {
		c.Log.Info("a commit waits until the server confirms the partition's record", "subject", c.Subject(), "input", c.next.InSeq, "why", cause)
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
		case err != nil: // server unavailable: retry
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
		case !c.IsSure(q) && c.isFenced(): // re-read the record
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

// isPermanent reports whether a repeated publish can never succeed. A refused
// expectation by itself is no error: the record decides.
func isPermanent(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 400 && !OvertakenBy(err)
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed)
}
