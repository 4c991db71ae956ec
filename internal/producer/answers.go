package producer

import (
	"container/heap"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
)

type answer struct {
	msg *nats.Msg
	err error
}

func (l *loop) send(s *stream) {
	l.flight[s.msg] = s
	s.sent = time.Now()
	l.pending += len(s.msg.Data)
	if _, err := l.js.PublishMsgAsync(s.msg, jetstream.WithRetryAttempts(0)); err != nil {
		l.answers <- answer{s.msg, err} // disconnected, or too large
	}
}

// answered takes a message out of flight. Its stream continues, or the message is
// sent again.
func (l *loop) answered(a answer) error {
	s := l.flight[a.msg]
	if s == nil {
		return nil // an answer to an attempt that was given up
	}
	delete(l.flight, a.msg)
	l.pending -= len(a.msg.Data)
	if a.err != nil {
		return l.retry(s, a.err)
	}
	s.refused = time.Time{}
	l.done.Messages++
	l.done.Rows += uint64(s.rows)
	l.done.Bytes += uint64(len(a.msg.Data))
	if now := time.Now(); l.opt.Progress != nil && now.Sub(l.told) >= progressEvery {
		l.told = now
		l.opt.Progress(l.report())
	}
	return l.nextMessage(s)
}

// giveUpLate sends again what the client has given no answer for, though it
// should after answerTimeout. The server stores it once: it knows the message's
// id.
func (l *loop) giveUpLate() error {
	for msg, s := range l.flight {
		if time.Since(s.sent) > 2*answerTimeout {
			if err := l.answered(answer{msg, nats.ErrTimeout}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loop) retry(s *stream, err error) error {
	now := time.Now()
	if s.refused.IsZero() {
		s.refused = now
	}
	l.refused.log(l.opt.Log, s.key, s.seq, err)
	nobody := errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
	patient := now.Sub(s.refused) <= noStreamPatience
	switch {
	case nobody && !patient:
		return fmt.Errorf("producer: message %d of stream %q: %w (does a stage listen on %s?)", s.seq, s.key, err, l.opt.Subject)
	case !patient && forbidden(l.js.Conn(), s.msg.Subject):
		return fmt.Errorf("producer: message %d of stream %q: %w", s.seq, s.key, l.js.Conn().LastError())
	case permanent(err):
		return fmt.Errorf("producer: message %d of stream %q: %w", s.seq, s.key, err)
	}
	l.done.Retries++
	s.due = now.Add(retryWait)
	l.turn++
	s.turn = l.turn
	heap.Push(&l.ready, s)
	return nil
}

// forbidden reports whether the server has said that this login may not publish
// there. It says so beside the message, which gets no answer.
func forbidden(nc *nats.Conn, subject string) bool {
	said := nc.LastError()
	return errors.Is(said, nats.ErrPermissionViolation) && strings.Contains(said.Error(), strconv.Quote(subject))
}

// refusals counts messages that the server refused, for the log.
type refusals struct {
	logged time.Time // when they were logged last
	since  int       // then
}

// log logs at most one line a second, however many streams wait.
func (r *refusals) log(log *slog.Logger, key string, seq uint64, err error) {
	r.since++
	if now := time.Now(); now.Sub(r.logged) >= time.Second {
		log.Warn("publish failed, retrying: check that the NATS stream exists and has space", "refusals", r.since, "stream", key, "seq", seq, "err", natsclient.Plain(err))
		r.logged, r.since = now, 0
	}
}

// finish waits for the messages in flight, so that the report is right, and
// returns cause.
func (l *loop) finish(cause error) error {
	if errors.Is(cause, nats.ErrPermissionViolation) { // what was refused has no answer
		return cause
	}
	late := time.After(answerTimeout)
	for len(l.flight) > 0 {
		select {
		case a := <-l.answers:
			if s := l.flight[a.msg]; s != nil {
				delete(l.flight, a.msg)
				if a.err == nil {
					l.done.Messages++
					l.done.Rows += uint64(s.rows)
					l.done.Bytes += uint64(len(a.msg.Data))
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
	return errors.As(err, &api) && api.Code == 400 || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, errOtherProducer)
}
