package watch

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
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
