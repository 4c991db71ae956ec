package owner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// connectionBudget is how many bytes consumers may request at the same time on one
	// connection. At 64 MiB of pending data the server drops the client as a slow
	// consumer; with requests for 48 MiB, a busy core reached that limit.
	connectionBudget = 32 << 20
	// maxPull is where larger pulls gain nothing.
	maxPull = 16 << 20
	// subjectRoom is a message's size in addition to headers and payload.
	subjectRoom = 8 << 10

	// consumerAttempts is how often the server may refuse a consumer; a server that
	// does not answer is asked until the ownership ends.
	consumerAttempts = 10

	// tooManyConsumers is the server's error code for too many consumers.
	tooManyConsumers = 10026

	CloseDeadline = 5 * time.Second // for callbacks that nothing else ends
	LeaveDeadline = time.Second     // for callbacks of a released partition: its shard drops their messages
)

// PullBytes returns how much each of n consumers may request at a time, and how many
// consumers one connection can serve. A pull must have room for any message, even if
// half of the pull is still in transit; otherwise that message would never come.
func PullBytes(n, maxMessage int) (pull, perConnection int) {
	pull = max(2*(maxMessage+subjectRoom), min(maxPull, connectionBudget/n))
	return pull, max(1, connectionBudget/pull)
}

// reader is a partition's ordered consumer.
type reader struct {
	jetstream.ConsumeContext
	input *inputView
	turn  sync.Mutex  // see Receive
	over  atomic.Bool // its messages are ignored
}

// followInput reads the partition until t.ctx ends: with its own consumer, or with the
// common reader while the partition is a member. ended is closed afterwards.
func (t *Ownership) followInput(own *reader) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			common := t.Input.common.Load()
			if own != nil && (common || own.over.Load()) {
				own.endReading(LeaveDeadline)
				own = nil
			}
			if own == nil && !common && t.ctx.Err() == nil {
				var err error
				if own, err = t.readInput(t.Input.passed.Load() + 1); err != nil && t.ctx.Err() == nil {
					t.Fail(err)
				}
			}
			select {
			case <-t.ctx.Done():
				t.w.Common.leaveReading(t)
				if own != nil {
					own.endReading(LeaveDeadline)
				}
				return
			case <-t.changed:
			}
		}
	}()
	return done
}

// watchChanges returns a channel that reports when the partition joins or leaves the
// common reader.
func (t *Ownership) watchChanges() {
	select {
	case t.changed <- struct{}{}:
	default: // follow has not looked since the last time
	}
}

// beginReading starts to read after the snapshot's last message: with the common reader
// (nil), or with the partition's own consumer.
func (t *Ownership) beginReading() (*reader, error) {
	seq := t.w.Server.In.Before(t.Saving().Seq)
	t.Input.brought.Store(seq)
	t.Input.passed.Store(seq)
	if t.w.Common.joinGathering(t, seq) {
		return nil, nil
	}
	return t.readInput(seq + 1)
}

// readInput starts the partition's consumer at an input message. Its error contains
// store.ErrLater unless the ownership ended.
func (t *Ownership) readInput(start uint64) (*reader, error) {
	for attempt := 1; ; attempt++ {
		js, err := t.w.Reader(t.part.State.ID)
		if err != nil { // the server has gone since the claim, or takes no more connections
			return nil, fmt.Errorf("%w: %w", err, store.ErrLater)
		}
		r, err := t.Receive(js, start, t.w.Pull)
		if err == nil || t.ctx.Err() != nil {
			return r, err
		}
		var refused *jetstream.APIError
		if errors.As(err, &refused) && (refused.ErrorCode == tooManyConsumers || attempt >= consumerAttempts) {
			if err = fmt.Errorf("%w (refused %d times)", err, attempt); refused.ErrorCode == tooManyConsumers {
				err = fmt.Errorf("%w: %s has as many consumers as it may have: those of workers that were killed end by themselves after %v; if it lasts, raise its max_consumers, or remove consumers of other programs (docs/nats.md)", err, t.w.Server.In.Name(), forgetAfter)
			}
			return nil, fmt.Errorf("%w: %w", err, store.ErrLater)
		}
		t.w.Log.Warn("consumer cannot be created, retrying", "partition", t.part.State.ID, "attempt", attempt, "err", err)
		if err := store.Pause(t.ctx, store.RetryWait); err != nil {
			return nil, err
		}
	}
}

// Receive starts the ordered consumer of the partition, from input message start on;
// pull is how many bytes it may request at a time. The callback blocks while the
// shard's queue is full, and so stops the pulls. The caller stops the returned reader.
// A fault ends the ownership, and with it t.ctx: no message may follow a skipped
// message.
//
// An ordered consumer is a series of consumers on the server: after a loss (a broken
// connection, an unavailable server), the client silently creates the next consumer
// after the last delivered message. Each counts its messages from 1. So before the
// first message of each consumer is used, checkSameInput requires that the input is
// unchanged, and reports whether input may have been lost before the message. It is
// also called if fewer messages remain than before, and if the input's beginning is
// near.
func (t *Ownership) Receive(js jetstream.JetStream, start uint64, pull int) (*reader, error) {
	part := t.part.State.ID
	start = t.w.Server.In.Before(start-1) + 1
	cons, err := js.OrderedConsumer(t.ctx, t.w.Server.In.Name(), jetstream.OrderedConsumerConfig{
		FilterSubjects:    t.w.Server.In.Filters(part),
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       start,
		InactiveThreshold: forgetAfter,
		NamePrefix:        rand.Text(), // a guessable name would let others pause or delete the consumer
	})
	if err != nil {
		return nil, fmt.Errorf("pipeline: consumer of partition %d: %w", part, err)
	}
	t.Input.brought.Store(start - 1)
	t.Input.passed.Store(start - 1)
	// A callback may still be asking the server when the next consumer's first message
	// comes, which waits its turn.
	r := &reader{input: &t.Input}
	r.ConsumeContext, err = cons.Consume(func(m jetstream.Msg) { t.acceptMessage(m, r) },
		jetstream.PullMaxBytes(pull), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if t.ctx.Err() == nil {
				t.w.Counters.Resets.Add(1)
				t.w.Log.Debug("consumer recovers", "partition", part, "err", err)
			}
		}))
	if err != nil {
		return nil, fmt.Errorf("pipeline: consumer of partition %d: %w", part, err)
	}
	return r, nil
}

// acceptMessage passes an input message to the shard. It holds the reader's turn during
// requests to the server.
func (t *Ownership) acceptMessage(m jetstream.Msg, r *reader) {
	if t.ctx.Err() != nil || r.over.Load() {
		return // the previous message may have been skipped: no message may follow it into the queue
	}
	meta, err := m.Metadata()
	if err != nil {
		t.Fail(fmt.Errorf("pipeline: message on %s: %w", m.Subject(), err))
		return
	}
	v := &t.Input
	if t.w.Drain.endsBefore(meta.Sequence.Stream) {
		v.brought.Store(meta.Sequence.Stream) // the message belongs to the new partitions
		return
	}
	pending, at := int64(meta.NumPending), wire.Place{Seq: meta.Sequence.Stream, Stored: meta.Timestamp.UnixNano()}
	ask := meta.Sequence.Consumer == 1 || v.Doubt.Load() || pending+1 < v.unread.Load()
	if !t.w.Server.In.Has(t.part.State.ID, at.Seq, m.Subject()) {
		if ask {
			v.owes.Store(true)
		}
		v.unread.Store(pending)
		v.brought.Store(at.Seq)
		return
	}
	lost, same := false, true
	if v.owes.Swap(false) || ask {
		r.turn.Lock()
		defer r.turn.Unlock()
		if lost, same = t.checkSameInput(at); !same {
			return
		}
	}
	t.part.Waiting.Add(1) // also while the queue is full
	v.Came.Store(at)
	v.unread.Store(pending) // after Came: see LookBehind
	v.brought.Store(at.Seq)
	select {
	case t.shard.Queue <- t.newJob(m.Subject(), m.Headers(), m.Data(), at, lost):
	case <-t.ctx.Done():
		t.part.Waiting.Add(-1)
		return
	}
	v.passed.Store(at.Seq)
	if t.w.Common.takeMember(t, at.Seq, pending == 0) {
		r.over.Store(true)
	}
}

// newJob makes a job for the shard of an input message.
func (t *Ownership) newJob(subject string, h wire.Header, data []byte, at wire.Place, lost bool) shard.Job {
	return shard.Job{
		Part: t.part, Msg: state.Message{
			Seq: at.Seq, Stored: at.Stored, Key: wire.KeyOf(subject),
			Header: h, Data: data, Lost: lost,
		},
	}
}

// endReading stops a reader: unread messages no longer belong to this worker.
func (r *reader) endReading(patience time.Duration) {
	r.over.Store(true)
	natsclient.StopConsumer(r, patience)
	r.input.unread.Store(0)
}
