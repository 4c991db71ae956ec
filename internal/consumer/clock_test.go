package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// server is a server with a separate clock.
type server struct {
	jetstream.JetStream
	at  time.Time
	err error
}

func (s *server) Stream(_ context.Context, name string) (jetstream.Stream, error) {
	if name != "JOB-OUT" {
		return nil, errors.New("another NATS stream: " + name)
	}
	return &answer{at: s.at}, s.err
}

type answer struct {
	jetstream.Stream
	at time.Time
}

func (a *answer) CachedInfo() *jetstream.StreamInfo { return &jetstream.StreamInfo{TimeStamp: a.at} }

// A relative time is computed from the server's clock, and from the local clock only if
// the server does not answer or gives no time.
func TestServerTime(t *testing.T) {
	yesterday := time.Now().Add(-24 * time.Hour)
	if got := ServerTime(t.Context(), &server{at: yesterday}, "job"); !got.Equal(yesterday) {
		t.Errorf("%v, want the server's %v", got, yesterday)
	}
	for name, s := range map[string]*server{"no answer": {at: yesterday, err: errors.New("no answer")}, "no time": {}} {
		if got := ServerTime(t.Context(), s, "job"); time.Since(got) > time.Minute {
			t.Errorf("%s: %v, want the local time", name, got)
		}
	}
}
