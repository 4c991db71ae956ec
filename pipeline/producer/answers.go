package producer

import (
	"container/heap"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

type ackOf struct {
	msg *nats.Msg
	err error
}

func (b *broadcast) send(pl *played) {
	b.flight[pl.msg] = pl
	pl.sent = time.Now()
	b.pending += len(pl.msg.Data)
	if _, err := b.js.PublishMsgAsync(pl.msg, jetstream.WithRetryAttempts(0)); err != nil {
		b.answers <- ackOf{pl.msg, err} // disconnected, or too large
	}
}

// answered takes a message out of flight: its stream goes on, or it goes out
// again.
func (b *broadcast) answered(a ackOf) error {
	pl := b.flight[a.msg]
	if pl == nil {
		return nil // a late answer to an attempt that was given up
	}
	delete(b.flight, a.msg)
	b.pending -= len(a.msg.Data)
	if a.err != nil {
		return b.retry(pl, a.err)
	}
	pl.refused = time.Time{}
	b.done.Messages++
	b.done.Rows += uint64(pl.rows)
	b.done.Bytes += uint64(len(a.msg.Data))
	if now := time.Now(); b.Progress != nil && now.Sub(b.told) >= progressEvery {
		b.told = now
		b.Progress(b.report())
	}
	return b.next(pl)
}

// overdue sends again what the client gives no answer for, though it should
// after answerTimeout. The message's id makes it count
// once.
func (b *broadcast) overdue() error {
	for msg, pl := range b.flight {
		if time.Since(pl.sent) > 2*answerTimeout {
			if err := b.answered(ackOf{msg, nats.ErrTimeout}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *broadcast) retry(pl *played, err error) error {
	now := time.Now()
	if pl.refused.IsZero() {
		pl.refused = now
	}
	b.complain(pl, err)
	nobody := errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
	switch {
	case nobody && now.Sub(pl.refused) > noStreamPatience:
		return fmt.Errorf("producer: message %d of stream %q: %w (does a stage listen on %s?)", pl.seq, pl.key, err, b.Subject)
	case permanent(err):
		return fmt.Errorf("producer: message %d of stream %q: %w", pl.seq, pl.key, err)
	}
	b.done.Retries++
	pl.due = now.Add(retryWait)
	b.turn++
	pl.turn = b.turn
	heap.Push(&b.ready, pl)
	return nil
}

// complain logs at most a line per second, however many streams wait.
func (b *broadcast) complain(pl *played, err error) {
	b.unsaid++
	if now := time.Now(); now.Sub(b.refusal) >= time.Second {
		b.Log.Warn("messages not taken, sending them again", "refusals", b.unsaid, "stream", pl.key, "seq", pl.seq, "err", natsclient.Plain(err))
		b.refusal, b.unsaid = now, 0
	}
}

// leave waits for the messages under way, so that the report is right, and
// returns why it ends.
func (b *broadcast) leave(cause error) error {
	late := time.After(answerTimeout)
	for len(b.flight) > 0 {
		select {
		case a := <-b.answers:
			if pl := b.flight[a.msg]; pl != nil {
				delete(b.flight, a.msg)
				if a.err == nil {
					b.done.Messages++
					b.done.Rows += uint64(pl.rows)
					b.done.Bytes += uint64(len(a.msg.Data))
				}
			}
		case <-late:
			return cause
		}
	}
	return cause
}

// permanent reports whether sending again can never succeed.
func permanent(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 400 || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed)
}
