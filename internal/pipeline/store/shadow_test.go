package store

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Predictions not stored by the server are counted as missed, and nothing is sent for a
// while.
func TestShadowsPause(t *testing.T) {
	srv := pipelinetest.Server(t, natsserver.Options{})
	nc, _ := pipelinetest.Connect(t, srv)
	js, err := ShadowPublisher(nc, 1, ShadowPatience)
	if err != nil {
		t.Fatal(err)
	}
	missed := 0
	s := &Shadows{JS: js, Job: "job", Patience: ShadowPatience, Log: pipelinetest.Log(t), Count: func(_ string, _, n int) { missed += n }}
	if s.Await(t.Context()); !s.IsReady() {
		t.Error("paused before anything was sent")
	}
	begun := time.Now()
	s.Send("a", 0, 3, 3, nil) // there is no such NATS stream
	s.Send("b", 0, 2, 2, nil)
	s.Await(t.Context())
	if s.IsReady() || missed != 5 || s.until.Sub(begun) < shadowPause || len(s.sent) != 0 {
		t.Errorf("ready %v, %d missed, nothing is sent for %v", s.IsReady(), missed, s.until.Sub(begun))
	}
}
