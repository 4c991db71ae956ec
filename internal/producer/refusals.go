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

// refusals counts refused messages, for the log.
type refusals struct {
	log    *slog.Logger
	logged time.Time // time of the last log line
	since  int       // then
}

// judgeRefusal logs at most one line a second, for any number of waiting streams. It
// returns an error if a retry of a stream's first message is useless; while patient,
// the cause may still be removed.
func (r *refusals) judgeRefusal(l *Lanes, s *Lane, err error, patient bool) error {
	seq, nc, since := s.queue[0].Seq, l.js.Conn(), s.refused
	if l.held && l.since.Before(since) {
		since = l.since // the streams have their turns
	}
	r.since++
	if now := time.Now(); now.Sub(r.logged) >= time.Second {
		r.log.Warn("publish failed, retrying: check that the server is reachable, and that the NATS stream exists and has space", "refusals", r.since, "stream", s.Key, "seq", seq, "err", natsclient.Plain(err))
		r.logged, r.since = now, 0
	}
	patient = patient || time.Since(since) <= noStreamPatience
	nobody := errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
	switch {
	case nobody && !patient:
		return fmt.Errorf("producer: message %d of stream %q: %w (does a stage listen on %s?)", seq, s.Key, err, s.Subject)
	case !patient && isForbidden(nc, s.Subject):
		return fmt.Errorf("producer: message %d of stream %q: %w", seq, s.Key, nc.LastError())
	case isPermanent(err):
		return fmt.Errorf("producer: message %d of stream %q: %w", seq, s.Key, err)
	}
	return nil
}

// isForbidden reports whether the server has denied this login to publish to subject. The
// server reports the denial separately; the message gets no answer.
func isForbidden(nc *nats.Conn, subject string) bool {
	said := nc.LastError()
	return errors.Is(said, nats.ErrPermissionViolation) && strings.Contains(said.Error(), strconv.Quote(subject))
}

// isPermanent reports whether a retry can never succeed.
func isPermanent(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 400 || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, errOtherProducer)
}
