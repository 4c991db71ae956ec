package store

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A request about the input that fails with the connection is retried: the failure
// stops no partition.
func TestInputMessageIsAskedAgain(t *testing.T) {
	t.Parallel()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ASKED", Subjects: []string{"asked"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "asked", []byte("answer")); err != nil {
		t.Fatal(err)
	}
	l := &Link{}
	l.up, l.cut = context.WithCancel(context.Background())
	l.cut() // as when the connection breaks before the answer
	time.AfterFunc(2*RetryWait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.up, l.cut = context.WithCancel(context.Background())
	})
	msg, err := (&Input{Stream: stream, Link: l}).readMessage(t.Context(), 1)
	if err != nil || string(msg.Data) != "answer" {
		t.Errorf("message %v, error %v", msg, err)
	}
	if err := js.DeleteStream(t.Context(), "ASKED"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*RetryWait)
	defer cancel()
	_, err = (&Input{Stream: stream, Link: l, Job: "asked"}).readMessage(ctx, 1)
	pipelinetest.Mentions(t, err, "ASKED-IN is gone") // a request that repeats would hide the loss from the stage's monitor
}
