package producer

import (
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

// refusals counts messages that the server refused, for the log.
type refusals struct {
	log    *slog.Logger
	logged time.Time // when they were logged last
	since  int       // then
}

// judge logs at most one line a second, however many streams wait. It returns an error if
// the first message of a stream need not be published again; while patient, somebody may
// still remove the cause.
func (r *refusals) judge(l *Lanes, s *Lane, err error, patient bool) error {
	seq, nc, since := s.queue[0].Seq, l.js.Conn(), s.refused
	if l.held && l.since.Before(since) {
		since = l.since // the streams have their turns
	}
	r.since++
	if now := time.Now(); now.Sub(r.logged) >= time.Second {
		r.log.Warn("publish failed, retrying: check that the NATS stream exists and has space", "refusals", r.since, "stream", s.Key, "seq", seq, "err", natsclient.Plain(err))
		r.logged, r.since = now, 0
	}
	patient = patient || time.Since(since) <= noStreamPatience
	nobody := errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
	switch {
	case nobody && !patient:
		return fmt.Errorf("producer: message %d of stream %q: %w (does a stage listen on %s?)", seq, s.Key, err, s.Subject)
	case !patient && forbidden(nc, s.Subject):
		return fmt.Errorf("producer: message %d of stream %q: %w", seq, s.Key, nc.LastError())
	case permanent(err):
		return fmt.Errorf("producer: message %d of stream %q: %w", seq, s.Key, err)
	}
	return nil
}

// forbidden reports whether the server has said that this login may not publish
// there. It says so beside the message, which gets no answer.
func forbidden(nc *nats.Conn, subject string) bool {
	said := nc.LastError()
	return errors.Is(said, nats.ErrPermissionViolation) && strings.Contains(said.Error(), strconv.Quote(subject))
}

// permanent reports whether publishing again can never succeed.
func permanent(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 400 || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, errOtherProducer)
}
