package watch

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// TestConsiderRecord: a process does not wait for a keeper that cannot be reconnecting.
func TestConsiderRecord(t *testing.T) {
	nc, _ := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	server := nc.ConnectedServerId()
	a := newAsker(nc, "job")
	for _, c := range []struct {
		name    string
		r       record
		claimed string
		began   bool
		waits   bool
	}{
		{"it starts, on the writer's server", record{Writer: "other", Server: server}, "", false, false},
		{"it starts, on another server", record{Writer: "other", Server: "S"}, "", false, true},
		{"it starts, the writer's server is not known", record{Writer: "other"}, "", false, true},
		{"its connection broke", record{Writer: "other", Server: server}, "", true, true},
		{"its connection broke behind its claim", record{Writer: "own", Server: "S"}, "own", true, false},
		{"its connection broke, and another one has claimed since", record{Writer: "other", Server: server}, "own", true, true},
	} {
		a.considerRecord(c.r, c.claimed, c.began)
		if waits := !a.waitUntil.IsZero(); waits != c.waits {
			t.Errorf("%s: it waits: %v, want %v", c.name, waits, c.waits)
		}
	}
}

// TestFailedClaimIsQuiet: a process whose claim failed because the server was down answers no
// questions on the next connection; otherwise all processes of the job would stand by forever.
func TestFailedClaimIsQuiet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := pipelinetest.Server(t, natsserver.Options{Dir: dir, Port: natsserver.RandomPort})
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	link, port := store.Follow(nc), pipelinetest.Port(t, srv)
	w := &watcher{Options: Options{Job: "job"}, process: &processState{nc: nc, link: link}, book: &book{link: link, writer: "first"}}
	srv.Close()
	pipelinetest.Until(t, "the client notices the server's end", func() bool { return !nc.IsConnected() })
	if _, err := w.answerPulses(); err == nil {
		t.Fatal("a claim without a server succeeds")
	}
	pipelinetest.Server(t, natsserver.Options{Dir: dir, Port: port})
	pipelinetest.Until(t, "reconnection", nc.IsConnected)
	if m, err := nc.Request(wire.AlarmAliveSubject("job"), nil, 5*time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("answer %v, error %v; want no responders", m, err)
	}
}
