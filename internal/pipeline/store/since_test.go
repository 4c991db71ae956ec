package store

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// TestFirstSince finds the first message since a time, in a log with such a message,
// and in a log emptied after its state was read.
func TestFirstSince(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	log, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(ctx, "log", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // messages with different times
	}
	info, err := log.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second, err := log.GetMsg(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	since := func(at time.Time, want uint64) {
		t.Helper()
		if seq, err := FirstSince(ctx, js, info.State, "LOG", at); err != nil || seq != want {
			t.Errorf("message %d, %v, want %d", seq, err, want)
		}
	}
	since(info.State.FirstTime, 1)
	since(second.Time, 2)
	since(info.State.LastTime.Add(1), 4)
	if err := log.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	since(second.Time, 4)
}
